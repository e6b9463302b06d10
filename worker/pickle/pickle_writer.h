#pragma once
/// (pure) Writes pickles of protocol 2, which every reader of torch's files accepts, with the memo
/// numbers that Python's own pickler gives. Called by the writers of distributed checkpoints; the
/// caller is responsible for a balanced stack. Cannot fail.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace lr::worker {

class PickleWriter {
 public:
  PickleWriter();

  void None();
  void Bool(bool value);
  void Integer(int64_t value);
  void Float(double value);

  /// Written once and referred to afterwards.
  void Text(std::string_view text);
  void Global(std::string_view module_and_name);

  /// A tuple of integers: a shape.
  void Integers(std::span<const int64_t> values);

  void Mark() { Emit('('); }

  /// Of everything since Mark().
  void TupleFromMark() { Emit('t'); }

  /// Of the last `count` (0 to 3) values.
  void Tuple(size_t count);

  void EmptyList() { Emit(']'); }

  void EmptyDict() { Emit('}'); }

  void Append() { Emit('a'); }

  void AppendsFromMark() { Emit('e'); }

  /// One key and one value into the dictionary below them.
  void SetItem() { Emit('s'); }

  void SetItemsFromMark() { Emit('u'); }

  /// Class and arguments -> object.
  void NewObject() { Emit('\x81'); }

  /// Function and arguments -> its result.
  void Call() { Emit('R'); }

  /// Object and state -> object.
  void Build() { Emit('b'); }

  /// Identifier -> the object it stands for.
  void Persistent() { Emit('Q'); }

  /// Gives the topmost value the next memo number, as Python does for most objects.
  void Remember();

  /// The pickle; once.
  std::string Finish() &&;

 private:
  void Emit(char opcode) { bytes_.push_back(opcode); }

  void EmitNumber(uint64_t number, int bytes);
  bool Recall(const std::string& key);

  std::string bytes_;
  uint32_t next_slot_ = 0;
  std::map<std::string, uint32_t> slots_;
};

}  // namespace lr::worker
