// Does every capture end whole in one place, whatever happens to the place it shall go to?
#include "tools/staging.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

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

// A file of which an older copy is at its place, made at an interval.
struct Copied {
  Places places;
  Staging staging{places.destination.string()};
  fs::path staged = fs::path(staging.directory()) / "a.vtrk", place = places.destination / "a.vtrk";
  Copied() {
    std::ofstream(staged) << "part";
    staging.copy_at_intervals(0);
    while (!fs::exists(place)) std::this_thread::yield();
  }
};

TEST(Staging, a_last_copy_that_fails_leaves_all_of_the_file_where_it_is) {
  Copied it;
  const fs::path partial = it.place.string() + ".partial", obstacle = partial / "directory";
  std::error_code ignored;
  while (!fs::exists(obstacle)) fs::create_directories(obstacle, ignored);  // the copier's own file may be in the way
  std::ofstream(it.staged) << "all";
  it.staging.finish();
  ASSERT_EQ(it.staging.failures().size(), 1u);
  EXPECT_EQ(it.staging.place_of(it.staged.string()), it.staged.string());
  EXPECT_EQ(text_of(it.staged), "all");
  fs::remove_all(it.staged.parent_path());
}

TEST(Staging, a_last_copy_that_cannot_be_begun_leaves_all_of_the_file_too) {
  Copied it;
  const fs::path directory = it.staging.directory(), elsewhere = it.places.root / "elsewhere";
  fs::rename(directory, elsewhere);  // it cannot be listed under its name
  it.staging.finish();
  ASSERT_EQ(it.staging.failures().size(), 1u);
  EXPECT_EQ(it.staging.place_of(it.staged.string()), it.staged.string());
  EXPECT_TRUE(fs::exists(elsewhere / "a.vtrk"));
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
