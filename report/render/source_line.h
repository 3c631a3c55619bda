// The text of a line of source, where the file is on this machine.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace vramtrack {

class SourceLines {
 public:
  // `root` is searched for files that are not at their recorded place; "" = none.
  explicit SourceLines(std::string root = "") : root_(std::move(root)) {}

  // Without indentation and line end; "" where there is no such file or line.
  const std::string& line(const std::string& file, int number);

 private:
  const std::vector<std::string>& lines(const std::string& file);

  std::string root_;
  std::map<std::string, std::vector<std::string>> files_;
};

}  // namespace vramtrack
