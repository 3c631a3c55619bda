// Are Python frames read as Python itself reports them, in every version that is here, and refused where they cannot be?
//
// Decoding is tested on objects built by hand. The rest is python_frames_check.py, run under each interpreter that is found on
// PATH and in pyenv's folder.
#include "interpose/python_code.h"
#include "interpose/python_frames.h"
#include "interpose/python_offsets.h"
#include "tests/unit/fake_interner.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>

namespace vramtrack {
namespace {

namespace fs = std::filesystem;

// Lines.

uint32_t line_at(LineTable kind, std::vector<uint8_t> table, int64_t offset) {
  return python_line(kind, table.data(), table.size(), 10, offset);
}

TEST(PythonLine, lnotab) {
  const std::vector<uint8_t> table = {0, 1, 6, 1, 4, 0xfe};  // a step back
  EXPECT_EQ(line_at(LineTable::kLnotab, table, 0), 11u);
  EXPECT_EQ(line_at(LineTable::kLnotab, table, 5), 11u);
  EXPECT_EQ(line_at(LineTable::kLnotab, table, 6), 12u);
  EXPECT_EQ(line_at(LineTable::kLnotab, table, 100), 10u);
  EXPECT_EQ(line_at(LineTable::kLnotab, table, -1), 10u);
  EXPECT_EQ(line_at(LineTable::kLnotab, {}, 4), 10u);
}

TEST(PythonLine, ranges) {
  const std::vector<uint8_t> table = {4, 1, 2, 0x80, 254, 0, 6, 1};  // the second range has no line
  EXPECT_EQ(line_at(LineTable::kRanges, table, 0), 11u);
  EXPECT_EQ(line_at(LineTable::kRanges, table, 4), 0u);
  EXPECT_EQ(line_at(LineTable::kRanges, table, 6), 11u);
  EXPECT_EQ(line_at(LineTable::kRanges, table, 261), 12u);
  EXPECT_EQ(line_at(LineTable::kRanges, table, 266), 0u);
  EXPECT_EQ(line_at(LineTable::kRanges, table, -2), 10u);
}

TEST(PythonLine, locations) {
  const auto entry = [](uint32_t code, uint32_t units) { return static_cast<uint8_t>(0x80 | code << 3 | (units - 1)); };
  const std::vector<uint8_t> table = {
      entry(11, 1), 3, 9,                  // one line further
      entry(13, 8), 0x40 | 1, 5,           // by a two-byte number: 1 + (5 << 6) = 321, that is -160
      entry(14, 2), (5 << 1), 0, 1, 1,     // by 5
      entry(15, 1),                        // none
      entry(0, 1), 0,                      // the same again
  };
  EXPECT_EQ(line_at(LineTable::kLocations, table, 0), 11u);
  EXPECT_EQ(line_at(LineTable::kLocations, table, 2), 0u) << "negative lines are no lines";
  const std::vector<uint8_t> forward(table.begin() + 6, table.end());
  EXPECT_EQ(line_at(LineTable::kLocations, forward, 3), 15u);
  EXPECT_EQ(line_at(LineTable::kLocations, forward, 4), 0u);
  EXPECT_EQ(line_at(LineTable::kLocations, forward, 6), 15u);
  EXPECT_EQ(line_at(LineTable::kLocations, forward, 8), 0u);
}

TEST(PythonLine, damaged_tables_are_not_read_beyond_their_end) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::vector<uint8_t> table(seed % 40);
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint8_t>(seed * 2654435761u >> (i % 24));
    for (const LineTable kind : {LineTable::kLnotab, LineTable::kRanges, LineTable::kLocations}) line_at(kind, table, 50);
  }
}

// Text.

// A code object of 3.12 or 3.14 whose name is the string under test.
struct HandMadeCode {
  const PythonLayout& layout;
  alignas(8) unsigned char code[256] = {};
  alignas(8) unsigned char string[8192] = {};

  template <typename Character>
  HandMadeCode(const PythonLayout& of, std::basic_string_view<Character> text, bool ascii, uint32_t state_shift) : layout(of) {
    const uint32_t state = (static_cast<uint32_t>(sizeof(Character)) | 8u | (ascii ? 16u : 0u)) << state_shift | 1u;
    const uint64_t count = text.size();
    memcpy(string + layout.string_length, &count, sizeof count);
    memcpy(string + layout.string_state, &state, sizeof state);
    memcpy(string + (ascii ? layout.string_ascii_data : layout.string_compact_data), text.data(),
           text.size() * sizeof(Character));
    const unsigned char* pointer = string;
    memcpy(code + layout.code_name, &pointer, sizeof pointer);
    memcpy(code + layout.code_filename, &pointer, sizeof pointer);
  }

  PythonLocation read() const { return read_python_location(layout, reinterpret_cast<uintptr_t>(code), 0); }
};

PythonLayout layout_of(uint32_t minor) {
  PythonLayout layout;
  EXPECT_TRUE(find_python_layout(3u << 24 | minor << 16, false, layout));
  return layout;
}

TEST(PythonText, every_width_becomes_utf8) {
  for (const auto& [minor, shift] : {std::pair(12u, 2u), std::pair(14u, 2u), std::pair(14u, 16u)}) {
    const PythonLayout layout = layout_of(minor);
    EXPECT_EQ(HandMadeCode(layout, std::string_view("plain"), true, shift).read().function(), "plain");
    EXPECT_EQ(HandMadeCode(layout, std::string_view("\xe9t\xe9"), false, shift).read().function(), "été");
    EXPECT_EQ(HandMadeCode(layout, std::u16string_view(u"имя\xdcff"), false, shift).read().function(), "имя\uFFFD");
    EXPECT_EQ(HandMadeCode(layout, std::u32string_view(U"𝒳y"), false, shift).read().function(), "𝒳y");
  }
}

TEST(PythonText, long_names_keep_their_beginning_and_long_paths_their_end) {
  const PythonLayout layout = layout_of(12);
  const std::string text = std::string(1000, 'a') + std::string(1000, 'b');
  const PythonLocation location = HandMadeCode(layout, std::string_view(text), true, 2).read();
  EXPECT_TRUE(text.starts_with(location.function()));
  EXPECT_TRUE(text.ends_with(location.file()));
  EXPECT_GE(location.file().size(), 256u);
}

TEST(PythonText, what_is_no_string_is_a_question_mark) {
  const PythonLayout layout = layout_of(12);
  HandMadeCode code(layout, std::string_view("x"), true, 2);
  memset(code.string + layout.string_state, 0, 4);
  EXPECT_EQ(code.read().function(), "?");
  memset(code.code + layout.code_name, 0, 8);
  EXPECT_EQ(code.read().function(), "?");
}

// Layouts.

TEST(PythonLayout, unknown_versions_are_refused) {
  PythonLayout layout;
  for (const uint32_t version : {0x02071200u, 0x03060000u, 0x03070000u, 0x030f00f0u, 0x04000000u, 0u}) {
    EXPECT_FALSE(find_python_layout(version, false, layout));
  }
  EXPECT_TRUE(find_python_layout(0x030d00f0, true, layout));
  EXPECT_FALSE(find_python_layout(0x030e00f0, true, layout));
}

struct Published {
  uint64_t words[128] = {};
  explicit Published(uint32_t version) {
    memcpy(words, "xdebugpy", 8);
    words[1] = version;
    // 3.13's own.
    words[23] = 72, words[29] = 8, words[30] = 0, words[31] = 56, words[33] = 70;
    words[35] = 112, words[37] = 128, words[38] = 136, words[39] = 68, words[43] = 200;
  }
};

TEST(PythonLayout, published_offsets_are_taken_over) {
  PythonLayout layout = layout_of(13);
  Published published(0x030d00f0);
  EXPECT_TRUE(adopt_published_offsets(published.words, 0x030d00f0, false, layout));
  EXPECT_EQ(layout, layout_of(13));
  published.words[33] = 71;
  EXPECT_TRUE(adopt_published_offsets(published.words, 0x030d00f0, false, layout));
  EXPECT_EQ(layout.frame_owner, 71);
}

TEST(PythonLayout, damaged_published_offsets_are_refused) {
  const auto refused = [](uint32_t word, uint64_t value) {
    PythonLayout layout = layout_of(13);
    Published published(0x030d00f0);
    published.words[word] = value;
    return !adopt_published_offsets(published.words, 0x030d00f0, false, layout) && layout == layout_of(13);
  };
  EXPECT_TRUE(refused(0, 0));
  EXPECT_TRUE(refused(1, 0x030d01f0));
  EXPECT_TRUE(refused(2, 1));
  EXPECT_TRUE(refused(23, 73));
  EXPECT_TRUE(refused(35, 100000));
  PythonLayout layout = layout_of(13);
  EXPECT_FALSE(adopt_published_offsets(nullptr, 0x030d00f0, false, layout));
  layout = layout_of(12);
  EXPECT_TRUE(adopt_published_offsets(nullptr, 0x030c00f0, false, layout)) << "3.12 publishes none";
}

// Interpreters.

TEST(PythonFrames, no_interpreter_no_frames) {
  PythonInterpreter python = {};
  EXPECT_FALSE(find_python(python));
  Interner interner;
  static PythonFrameCache cache;
  uint32_t ids[4];
  bool truncated = true;
  EXPECT_EQ(read_python_frames(python, cache, interner, ids, 4, &truncated), 0u);
  EXPECT_FALSE(truncated);
}

fs::path here() { return fs::read_symlink("/proc/self/exe").parent_path(); }

// pyenv's own interpreters first: the commands of that name on PATH may be its shims, which choose a version by themselves.
std::vector<fs::path> pyenv_versions() {
  const char* root = getenv("PYENV_ROOT");
  const fs::path versions = (root != nullptr ? fs::path(root) : fs::path(getenv("HOME")) / ".pyenv") / "versions";
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(versions, error)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> interpreters(const std::string& version) {
  std::vector<fs::path> found;
  for (const fs::path& folder : pyenv_versions()) {
    if (folder.filename().string().starts_with(version + ".")) found.push_back(folder / "bin" / ("python" + version));
  }
  std::string path = getenv("PATH") != nullptr ? getenv("PATH") : "";
  path += ":/usr/bin";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const fs::path file = fs::path(path.substr(begin, end - begin)) / ("python" + version);
    begin = end + 1;
    if (file.parent_path().filename() == "shims" || !fs::exists(file)) continue;
    const fs::path real = fs::canonical(file);
    const bool known = std::any_of(found.begin(), found.end(), [&](const fs::path& p) { return fs::canonical(p) == real; });
    if (!known) found.push_back(file);
  }
  std::erase_if(found, [](const fs::path& file) { return !fs::exists(file); });
  return found;
}

class EachPython : public testing::TestWithParam<const char*> {};

TEST_P(EachPython, sees_what_python_sees) {
  const std::vector<fs::path> found = interpreters(GetParam());
  if (found.empty()) GTEST_SKIP() << "python" << GetParam() << " is not here";
  const fs::path script = fs::path(__FILE__).parent_path() / "python_frames_check.py";
  for (const fs::path& python : found) {
    std::printf("%s\n", python.c_str());
    fflush(stdout);
    const std::string command = "'" + python.string() + "' '" + script.string() + "' '" +
                                (here() / "python_frames_library.so").string() + "' 2>&1";
    EXPECT_EQ(system(command.c_str()), 0) << command;
  }
}

INSTANTIATE_TEST_SUITE_P(Version, EachPython, testing::Values("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"),
                         [](const auto& version) {
                           std::string name = version.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// An application may load the interpreter where only it can see it.
TEST(PythonFrames, interpreter_in_a_local_library_is_found) {
  void* library = nullptr;
  for (const fs::path& folder : pyenv_versions()) {
    for (const char* name : {"libpython3.12.so.1.0", "libpython3.11.so.1.0", "libpython3.13.so.1.0"}) {
      if (library == nullptr) library = dlopen((folder / "lib" / name).c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
  if (library == nullptr) GTEST_SKIP() << "no libpython is here";
  ASSERT_EQ(dlsym(RTLD_DEFAULT, "Py_GetVersion"), nullptr);
  PythonInterpreter python = {};
  EXPECT_TRUE(find_python(python));
  EXPECT_EQ(python.state, format::PythonState::kReading);
  const auto address = reinterpret_cast<uintptr_t>(dlsym(library, "Py_GetVersion"));
  EXPECT_TRUE(address >= python.code_begin && address < python.code_end);
  // Not initialised: this thread has no state.
  Interner interner;
  static PythonFrameCache cache;
  uint32_t ids[4];
  bool truncated;
  EXPECT_EQ(read_python_frames(python, cache, interner, ids, 4, &truncated), 0u);
}

}  // namespace
}  // namespace vramtrack
