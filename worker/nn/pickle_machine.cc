// (pure) Opcodes of pickle protocol 2 as torch.save uses them. Errors name the byte at which they
// arose.
#include "worker/nn/pickle_machine.h"

namespace lr::worker::internal {

namespace {

// The opcodes of pickletools that may appear.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kEmptyTuple = ')',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
};

}  // namespace

Status PickleMachine::Run() {
  while (!stopped_) {
    LR_ASSIGN(const std::string_view opcode, Take(1));
    LR_TRY(Execute(static_cast<uint8_t>(opcode[0])));
  }
  return {};
}

Status PickleMachine::Execute(uint8_t opcode) {
  switch (opcode) {
    case kProto: {
      LR_ASSIGN(const uint64_t protocol, TakeLittleEndian(1));
      return protocol == 2 ? Status() : Fail(fmt::format("protocol {} (only 2 is read)", protocol));
    }
    case kStop: {
      LR_ASSIGN(root_, Pop());
      stopped_ = true;
      return {};
    }
    case kMark:
      marks_.push_back(stack_.size());
      return {};
    case kGlobal: {
      LR_ASSIGN(const std::string_view module, TakeLine());
      LR_ASSIGN(const std::string_view name, TakeLine());
      Push({PickleKind::kGlobal, 0, fmt::format("{}.{}", module, name), {}});
      return {};
    }
    case kBinPersId:
      return PersistentLoad();
    case kReduce:
      return Reduce();
    case kBuild:
      return Build();
    case kBinGet:
    case kLongBinGet:
    case kBinPut:
    case kLongBinPut:
      return ExecuteMemo(opcode);
    default:
      return ExecuteConstant(opcode);
  }
}

Status PickleMachine::ExecuteConstant(uint8_t opcode) {
  switch (opcode) {
    case kNone:
      Push({PickleKind::kNone, 0, {}, {}});
      return {};
    case kNewTrue:
    case kNewFalse:
      Push({PickleKind::kBool, opcode == kNewTrue ? 1 : 0, {}, {}});
      return {};
    case kBinInt1:
    case kBinInt2:
    case kBinInt: {
      LR_ASSIGN(const uint64_t raw,
                TakeLittleEndian(opcode == kBinInt1   ? 1
                                 : opcode == kBinInt2 ? 2
                                                      : 4));
      const int64_t number =
          opcode == kBinInt ? static_cast<int32_t>(raw) : static_cast<int64_t>(raw);
      Push({PickleKind::kInteger, number, {}, {}});
      return {};
    }
    case kLong1:
      return PushLong();
    case kBinFloat: {
      LR_TRY(Take(8));
      Push({PickleKind::kFloat, 0, {}, {}});
      return {};
    }
    case kBinUnicode:
      return PushText(4);
    case kShortBinString:
      return PushText(1);
    default:
      return ExecuteContainer(opcode);
  }
}

Status PickleMachine::ExecuteContainer(uint8_t opcode) {
  switch (opcode) {
    case kEmptyTuple:
      return PushTuple(0);
    case kTuple1:
      return PushTuple(1);
    case kTuple2:
      return PushTuple(2);
    case kTuple3:
      return PushTuple(3);
    case kTuple: {
      LR_ASSIGN(std::vector<uint32_t> items, PopToMark());
      Push({PickleKind::kTuple, 0, {}, std::move(items)});
      return {};
    }
    case kEmptyList:
      Push({PickleKind::kList, 0, {}, {}});
      return {};
    case kEmptyDict:
      Push({PickleKind::kDict, 0, {}, {}});
      return {};
    case kAppend:
      return Extend(PickleKind::kList, false);
    case kAppends:
      return Extend(PickleKind::kList, true);
    case kSetItem:
      return Extend(PickleKind::kDict, false);
    case kSetItems:
      return Extend(PickleKind::kDict, true);
    default:
      return Fail(fmt::format("opcode 0x{:02x}, which no file of plain tensors has", opcode));
  }
}

Status PickleMachine::ExecuteMemo(uint8_t opcode) {
  const bool is_long = opcode == kLongBinGet || opcode == kLongBinPut;
  LR_ASSIGN(const uint64_t slot, TakeLittleEndian(is_long ? 4 : 1));
  if (opcode == kBinPut || opcode == kLongBinPut) {
    if (stack_.empty()) {
      return Fail("nothing to remember");
    }
    memo_[slot] = stack_.back();
    return {};
  }
  const auto found = memo_.find(slot);
  if (found == memo_.end()) {
    return Fail(fmt::format("a reference to slot {}, which is empty", slot));
  }
  stack_.push_back(found->second);
  return {};
}

Result<std::string_view> PickleMachine::Take(size_t count) {
  if (count > bytes_.size() - position_) {
    return Fail("the end of the data");
  }
  const std::string_view taken = bytes_.substr(position_, count);
  position_ += count;
  return taken;
}

Result<std::string_view> PickleMachine::TakeLine() {
  const size_t end = bytes_.substr(position_, 256).find('\n');
  if (end == std::string_view::npos) {
    return Fail("a name longer than 256 bytes");
  }
  LR_ASSIGN(const std::string_view line, Take(end + 1));
  return line.substr(0, end);
}

Result<uint64_t> PickleMachine::TakeLittleEndian(size_t count) {
  LR_ASSIGN(const std::string_view raw, Take(count));
  uint64_t number = 0;
  for (size_t i = 0; i < count; ++i) {
    number |= static_cast<uint64_t>(static_cast<uint8_t>(raw[i])) << (8 * i);
  }
  return number;
}

void PickleMachine::Push(PickleValue value) {
  stack_.push_back(static_cast<uint32_t>(values_.size()));
  values_.push_back(std::move(value));
}

Result<uint32_t> PickleMachine::Pop() {
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor) {
    return Fail("too few values on the stack");
  }
  const uint32_t top = stack_.back();
  stack_.pop_back();
  return top;
}

Result<std::vector<uint32_t>> PickleMachine::PopToMark() {
  if (marks_.empty()) {
    return Fail("an end without a beginning");
  }
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<uint32_t> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

Result<PickleValue*> PickleMachine::Top(PickleKind kind) {
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor || values_[stack_.back()].kind != kind) {
    return Fail("a value of another kind than the one it is added to");
  }
  return &values_[stack_.back()];
}

Status PickleMachine::PushTuple(size_t count) {
  std::vector<uint32_t> items(count);
  for (size_t i = count; i > 0; --i) {
    LR_ASSIGN(items[i - 1], Pop());
  }
  Push({PickleKind::kTuple, 0, {}, std::move(items)});
  return {};
}

Status PickleMachine::PushText(size_t length_bytes) {
  LR_ASSIGN(const uint64_t length, TakeLittleEndian(length_bytes));
  LR_ASSIGN(const std::string_view text, Take(length));
  Push({PickleKind::kText, 0, std::string(text), {}});
  return {};
}

Status PickleMachine::PushLong() {
  LR_ASSIGN(const uint64_t length, TakeLittleEndian(1));
  if (length > 8) {
    return Fail(fmt::format("an integer of {} bytes (limit 8)", length));
  }
  LR_ASSIGN(uint64_t raw, TakeLittleEndian(length));
  if (length > 0 && length < 8 && (raw >> (8 * length - 1)) != 0) {
    raw |= ~uint64_t{0} << (8 * length);  // negative: extend the sign
  }
  Push({PickleKind::kInteger, static_cast<int64_t>(raw), {}, {}});
  return {};
}

Status PickleMachine::Extend(PickleKind kind, bool many) {
  std::vector<uint32_t> items;
  if (many) {
    LR_ASSIGN(items, PopToMark());
  } else {
    items.resize(kind == PickleKind::kDict ? 2 : 1);
    for (size_t i = items.size(); i > 0; --i) {
      LR_ASSIGN(items[i - 1], Pop());
    }
  }
  if (kind == PickleKind::kDict && items.size() % 2 != 0) {
    return Fail("a key without a value");
  }
  LR_ASSIGN(PickleValue * target, Top(kind));
  target->items.insert(target->items.end(), items.begin(), items.end());
  return {};
}

Status PickleMachine::Fail(const std::string& what) const {
  return InvalidArgument("pickle, byte {}: {}", position_, what);
}

}  // namespace lr::worker::internal
