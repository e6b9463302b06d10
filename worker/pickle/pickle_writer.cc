// (pure) The opcodes that pickletools lists for protocol 2.
#include "worker/pickle/pickle_writer.h"

#include <bit>
#include <limits>

namespace lr::worker {

PickleWriter::PickleWriter() : bytes_("\x80\x02") {}

void PickleWriter::EmitNumber(uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    bytes_.push_back(static_cast<char>(number >> (8 * i)));
  }
}

void PickleWriter::None() {
  Emit('N');
}

void PickleWriter::Bool(bool value) {
  Emit(value ? '\x88' : '\x89');
}

/// The shortest form, as Python chooses it.
void PickleWriter::Integer(int64_t value) {
  if (value >= 0 && value <= 0xff) {
    Emit('K');
    EmitNumber(static_cast<uint64_t>(value), 1);
  } else if (value >= 0 && value <= 0xffff) {
    Emit('M');
    EmitNumber(static_cast<uint64_t>(value), 2);
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    Emit('J');
    EmitNumber(static_cast<uint64_t>(value), 4);
  } else {
    int bytes = 5;
    while (bytes < 8 && (value >> (8 * bytes - 1)) != 0 && (value >> (8 * bytes - 1)) != -1) {
      ++bytes;
    }
    Emit('\x8a');
    EmitNumber(static_cast<uint64_t>(bytes), 1);
    EmitNumber(static_cast<uint64_t>(value), bytes);
  }
}

void PickleWriter::Float(double value) {
  Emit('G');
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) {
    bytes_.push_back(static_cast<char>(bits >> shift));
  }
}

/// True when `key` was written before: then it is referred to, else it gets a number.
bool PickleWriter::Recall(const std::string& key) {
  const auto [slot, is_new] = slots_.try_emplace(key, next_slot_);
  if (is_new) {
    return false;
  }
  const bool is_short = slot->second <= 0xff;
  Emit(is_short ? 'h' : 'j');
  EmitNumber(slot->second, is_short ? 1 : 4);
  return true;
}

void PickleWriter::Text(std::string_view text) {
  if (Recall(std::string("t").append(text))) {
    return;
  }
  Emit('X');
  EmitNumber(text.size(), 4);
  bytes_.append(text);
  Remember();
}

void PickleWriter::Global(std::string_view module_and_name) {
  if (Recall(std::string("g").append(module_and_name))) {
    return;
  }
  const size_t dot = module_and_name.rfind('.');
  Emit('c');
  bytes_.append(module_and_name.substr(0, dot)).append("\n");
  bytes_.append(module_and_name.substr(dot + 1)).append("\n");
  Remember();
}

void PickleWriter::Tuple(size_t count) {
  constexpr char kOpcodes[] = {')', '\x85', '\x86', '\x87'};
  Emit(kOpcodes[count]);
}

void PickleWriter::Integers(std::span<const int64_t> values) {
  if (values.size() > 3) {
    Mark();
  }
  for (const int64_t value : values) {
    Integer(value);
  }
  if (values.size() > 3) {
    TupleFromMark();
  } else {
    Tuple(values.size());
  }
}

void PickleWriter::Remember() {
  const bool is_short = next_slot_ <= 0xff;
  Emit(is_short ? 'q' : 'r');
  EmitNumber(next_slot_, is_short ? 1 : 4);
  ++next_slot_;
}

std::string PickleWriter::Finish() && {
  Emit('.');
  return std::move(bytes_);
}

}  // namespace lr::worker
