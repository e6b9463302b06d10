#include "tools/lr_ctl/log_reader.h"

#include <algorithm>
#include <sys/stat.h>

#include <fmt/format.h>

namespace lr {
namespace {

constexpr size_t kBlock = size_t{64} << 10;

bool SameFile(std::FILE* a, std::FILE* b) {
  struct stat one {};

  struct stat other {};

  return fstat(fileno(a), &one) == 0 && fstat(fileno(b), &other) == 0 &&
         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

std::string ReadBlock(std::FILE* file, size_t bytes = kBlock) {
  std::string block(bytes, '\0');
  std::clearerr(file);  // an end of file seen before is forgotten: the file may have grown
  block.resize(std::fread(block.data(), 1, bytes, file));
  return block;
}

/// Moves to the start of the last `lines` lines; true when that many are there, else `lines` is
/// what is missing and the file stands at its beginning.
bool SeekToLast(std::FILE* file, size_t& lines) {
  if (std::fseek(file, 0, SEEK_END) != 0) {
    return false;
  }
  const long size = std::ftell(file);
  if (lines == 0 || size <= 0) {
    return lines == 0;
  }
  for (long end = size; end > 0;) {
    const long start = std::max(0L, end - static_cast<long>(kBlock));
    if (std::fseek(file, start, SEEK_SET) != 0) {
      return false;
    }
    const std::string block = ReadBlock(file, static_cast<size_t>(end - start));
    for (size_t i = block.size(); i-- > 0;) {
      const long after = start + static_cast<long>(i) + 1;
      if (block[i] == '\n' && after != size && --lines == 0) {
        return std::fseek(file, after, SEEK_SET) == 0;
      }
    }
    end = start;
  }
  std::rewind(file);
  return --lines == 0;
}

}  // namespace

void LogReader::Close::operator()(std::FILE* file) const {
  static_cast<void>(std::fclose(file));  // only read from
}

bool LogReader::OpenNewer() {
  std::deque<File> newer;
  for (int part = 0;; ++part) {
    const std::string name = part == 0 ? path_ : fmt::format("{}.{}", path_, part);
    File file(std::fopen(name.c_str(), "rbe"));
    if (!file || (!parts_.empty() && SameFile(file.get(), parts_.back().get()))) {
      break;
    }
    newer.push_front(std::move(file));
  }
  const bool found = !newer.empty();
  std::move(newer.begin(), newer.end(), std::back_inserter(parts_));
  return found;
}

void LogReader::SkipToLast(size_t lines) {
  OpenNewer();
  for (size_t i = parts_.size(); i-- > 0;) {
    if (SeekToLast(parts_[i].get(), lines)) {
      parts_.erase(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
}

std::string LogReader::Read() {
  while (true) {
    if (!parts_.empty()) {
      std::string block = ReadBlock(parts_.front().get());
      if (!block.empty()) {
        return block;
      }
    }
    if (parts_.size() > 1) {
      parts_.pop_front();
    } else if (!OpenNewer()) {
      return {};
    }
    // The last bytes of a part that was rotated away meanwhile are read before it is dropped.
  }
}

}  // namespace lr
