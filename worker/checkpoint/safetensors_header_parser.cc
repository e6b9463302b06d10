// The bounded, event-driven parser of a safetensors header. See safetensors_header.h; any thread.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "worker/checkpoint/safetensors_header.h"

namespace lr::worker {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and copied as it is");

/// Receives the header's JSON event by event: no tree is built, and every rule of the format is
/// checked where it can be broken. A false return ends the parse; `failure()` then says why.
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(const SafetensorsLimits& limits) : limits_(limits) {}

  const Status& failure() const { return failure_; }

  std::vector<SafetensorsEntry> TakeEntries() { return std::move(entries_); }

  SafetensorsMetadata TakeMetadata() { return std::move(metadata_); }

  bool null() override {
    // `"__metadata__": null` counts as absent.
    return place_ == Place::kTop && key_ == kSafetensorsMetadataName ? true : Scalar("null");
  }

  bool boolean(bool /*value*/) override { return Scalar("a boolean"); }

  bool number_integer(int64_t value) override {
    return Scalar(fmt::format("the negative number {}", value));
  }

  bool number_float(double /*value*/, const std::string& text) override {
    return Scalar(fmt::format("{}, not an integer below 2^64", text));
  }

  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::kNumbers) {
      if (numbers_->size() >= number_limit_) {
        return Fail("{}: {} has more than {} numbers", EntryName(), field_, number_limit_);
      }
      numbers_->push_back(value);
      return true;
    }
    return Scalar(fmt::format("the number {}", value));
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      metadata_[key_] = std::move(value);
      return true;
    }
    if (place_ == Place::kEntry && field_ == "dtype") {
      const std::optional<SafetensorsDtype> dtype = DtypeFromName(value);
      if (!dtype) {
        return Fail("{}: unknown dtype '{}'", EntryName(), value);
      }
      entry_.dtype = *dtype;
      return true;
    }
    return Scalar("a text");
  }

  bool binary(binary_t& /*value*/) override { return Scalar("binary data"); }

  bool key(std::string& value) override {
    if (place_ == Place::kTop) {
      key_ = std::move(value);
      return names_.insert(key_).second || Fail("duplicate key '{}'", key_);
    }
    if (place_ == Place::kMetadata) {
      key_ = std::move(value);
      return !metadata_.contains(key_) ||
             Fail("duplicate key '{}' in {}", key_, kSafetensorsMetadataName);
    }
    if (place_ == Place::kEntry) {
      field_ = std::move(value);
      return fields_.insert(field_).second || Fail("{}: duplicate key '{}'", EntryName(), field_);
    }
    return true;  // inside an unknown field
  }

  bool start_object(size_t /*elements*/) override {
    switch (place_) {
      case Place::kOutside:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        return StartTopValue();
      case Place::kMetadata:
        return Fail("{}: the value of '{}' is not a text", kSafetensorsMetadataName, key_);
      default:
        return StartIgnored();
    }
  }

  bool end_object() override {
    switch (place_) {
      case Place::kIgnored:
        return EndIgnored();
      case Place::kMetadata:
        place_ = Place::kTop;
        return true;
      case Place::kEntry:
        return EndEntry();
      default:
        place_ = Place::kOutside;
        return true;
    }
  }

  bool start_array(size_t /*elements*/) override {
    if (place_ == Place::kOutside) {
      return Fail("the header is a JSON array, not an object");
    }
    if (place_ == Place::kEntry && field_ == "shape") {
      return StartNumbers(entry_.shape, limits_.max_rank);
    }
    if (place_ == Place::kEntry && field_ == "data_offsets") {
      return StartNumbers(offsets_, 2);
    }
    if (place_ == Place::kEntry || place_ == Place::kIgnored) {
      return StartIgnored();
    }
    return Scalar("an array");
  }

  bool end_array() override {
    if (place_ == Place::kNumbers) {
      place_ = Place::kEntry;
      return true;
    }
    return EndIgnored();
  }

  bool parse_error(size_t position,
                   const std::string& /*token*/,
                   const nlohmann::json::exception& error) override {
    const std::string_view what = error.what();
    const size_t colon = what.find(": ");
    return Fail("not valid JSON at byte {}: {}",
                position,
                colon == std::string_view::npos ? what : what.substr(colon + 2));
  }

 private:
  enum class Place { kOutside, kTop, kMetadata, kEntry, kNumbers, kIgnored };

  static constexpr int kMaximumIgnoredDepth = 16;

  template <typename... Args>
  bool Fail(fmt::format_string<Args...> format, Args&&... args) {
    failure_ = InvalidArgument(format, std::forward<Args>(args)...);
    return false;
  }

  std::string EntryName() const { return fmt::format("tensor '{}'", entry_.name); }

  /// A scalar (or array) that did not fit where it stands.
  bool Scalar(std::string_view what) {
    switch (place_) {
      case Place::kOutside:
        return Fail("the header is {}, not an object", what);
      case Place::kTop:
        return Fail("'{}' is {}, not an object", key_, what);
      case Place::kMetadata:
        return Fail(
            "{}: the value of '{}' is {}, not a text", kSafetensorsMetadataName, key_, what);
      case Place::kNumbers:
        return Fail("{}: {} holds {}", EntryName(), field_, what);
      case Place::kEntry:
        if (field_ == "dtype" || field_ == "shape" || field_ == "data_offsets") {
          return Fail("{}: {} is {}", EntryName(), field_, what);
        }
        return true;  // unknown fields are ignored
      case Place::kIgnored:
        return true;
    }
    return true;
  }

  bool StartTopValue() {
    if (key_ == kSafetensorsMetadataName) {
      place_ = Place::kMetadata;
      return true;
    }
    entry_ = {};
    entry_.name = key_;
    offsets_.clear();
    fields_.clear();
    place_ = Place::kEntry;
    return true;
  }

  bool StartNumbers(std::vector<uint64_t>& target, uint64_t limit) {
    numbers_ = &target;
    number_limit_ = limit;
    place_ = Place::kNumbers;
    return true;
  }

  bool StartIgnored() {
    if (place_ == Place::kNumbers) {
      return Fail("{}: {} holds something that is not a number", EntryName(), field_);
    }
    if (place_ == Place::kEntry &&
        (field_ == "dtype" || field_ == "shape" || field_ == "data_offsets")) {
      return Fail("{}: {} has the wrong type", EntryName(), field_);
    }
    place_ = Place::kIgnored;
    return ++ignored_depth_ <= kMaximumIgnoredDepth ||
           Fail("{}: nested deeper than {}", EntryName(), kMaximumIgnoredDepth);
  }

  bool EndIgnored() {
    if (--ignored_depth_ == 0) {
      place_ = Place::kEntry;
    }
    return true;
  }

  bool EndEntry() {
    for (const char* required : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.contains(required)) {
        return Fail("{}: '{}' is missing", EntryName(), required);
      }
    }
    if (offsets_.size() != 2) {
      return Fail("{}: data_offsets has {} numbers, not 2", EntryName(), offsets_.size());
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    entries_.push_back(std::move(entry_));
    place_ = Place::kTop;
    return true;
  }

  const SafetensorsLimits& limits_;
  Status failure_;
  Place place_ = Place::kOutside;
  int ignored_depth_ = 0;
  std::string key_;
  std::string field_;
  std::set<std::string> names_;
  std::set<std::string> fields_;
  SafetensorsEntry entry_;
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t>* numbers_ = nullptr;
  uint64_t number_limit_ = 0;
  std::vector<SafetensorsEntry> entries_;
  SafetensorsMetadata metadata_;
};

}  // namespace

Result<uint64_t> ParseSafetensorsLength(std::string_view prefix,
                                        uint64_t file_size,
                                        const SafetensorsLimits& limits) {
  if (prefix.size() < kSafetensorsLengthBytes || file_size < kSafetensorsLengthBytes) {
    return DataLoss("the file is too short: {} bytes, a header length needs {}",
                    file_size,
                    kSafetensorsLengthBytes);
  }
  uint64_t length = 0;
  std::memcpy(&length, prefix.data(), kSafetensorsLengthBytes);
  if (length > limits.max_header_bytes) {
    return OutOfRange(
        "the header is too large: {} bytes (limit {})", length, limits.max_header_bytes);
  }
  if (length > file_size - kSafetensorsLengthBytes) {
    return DataLoss("the header of {} bytes reaches beyond the file of {}", length, file_size);
  }
  return length;
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text,
                                                 uint64_t file_size,
                                                 const SafetensorsLimits& limits) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') {
    return InvalidArgument("not valid JSON: the header does not begin with '{{'");
  }
  if (file_size < kSafetensorsLengthBytes + text.size()) {
    return DataLoss("the header of {} bytes reaches beyond the file of {}", text.size(), file_size);
  }
  HeaderHandler handler(limits);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &handler);
  if (!parsed) {
    return handler.failure();
  }
  SafetensorsHeader header;
  header.metadata = handler.TakeMetadata();
  header.entries = handler.TakeEntries();
  header.data_start = kSafetensorsLengthBytes + text.size();
  std::stable_sort(header.entries.begin(),
                   header.entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  LR_TRY(CheckSafetensorsLayout(header, file_size));
  return header;
}

}  // namespace lr::worker
