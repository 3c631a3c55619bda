// Does every capture end whole in one place, whatever happens to the place it shall go to?
#include "tools/staging.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace vramtrack {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Places {
  fs::path root, destination;
  Places() {
    std::string pattern = (fs::temp_directory_path() / "vramtrack-test-XXXXXX").string();
    root = mkdtemp(pattern.data());
    destination = root / "far";
    fs::create_directory(destination);
  }
  ~Places() { fs::remove_all(root); }
};

TEST(Staging, files_go_to_their_place_and_leave_nothing_behind) {
  Places places;
  std::string staged, directory;
  {
    Staging staging(places.destination.string());
    directory = staging.directory();
    staged = directory + "/a.vtrk";
    std::ofstream(staged) << "all";
    staging.finish();
    EXPECT_EQ(text_of(staging.place_of(staged)), "all");
    EXPECT_TRUE(staging.failures().empty());
  }
  EXPECT_EQ(text_of(places.destination / "a.vtrk"), "all");
  EXPECT_FALSE(fs::exists(directory));
}

TEST(Staging, a_file_that_cannot_be_copied_stays) {
  Places places;
  std::string staged;
  {
    Staging staging(places.destination.string());
    staged = staging.directory() + "/a.vtrk";
    std::ofstream(staged) << "all";
    fs::remove_all(places.destination);
    staging.finish();
    ASSERT_EQ(staging.failures().size(), 1u);
    EXPECT_EQ(staging.failures()[0].staged, staged);
    EXPECT_EQ(staging.place_of(staged), staged);
  }
  EXPECT_EQ(text_of(staged), "all");
  fs::remove_all(fs::path(staged).parent_path());
}

TEST(Staging, nothing_that_was_there_is_overwritten) {
  Places places;
  std::ofstream(places.destination / "a.vtrk") << "older";
  Staging staging(places.destination.string());
  std::ofstream(staging.directory() + "/a.vtrk") << "new";
  staging.finish();
  EXPECT_EQ(text_of(places.destination / "a.vtrk"), "older");
  EXPECT_EQ(text_of(places.destination / "a.1.vtrk"), "new");
}

}  // namespace
}  // namespace vramtrack
