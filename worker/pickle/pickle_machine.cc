// (pure) The opcodes one by one: control and calls in Execute, then constants, texts, containers
// and the memo. What the values mean is decided elsewhere.
#include "worker/pickle/pickle_machine.h"

namespace lr::worker {

namespace internal {

namespace {

/// The opcodes of pickletools that may appear.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPopMark = '1',
  kShortBinBytes = 'C',
  kBinBytes = 'B',
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
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

}  // namespace

Result<PickleDocument> PickleMachine::Run() {
  while (!stopped_) {
    LR_ASSIGN(const std::string_view opcode, Take(1));
    LR_TRY(Execute(static_cast<uint8_t>(opcode[0])));
  }
  LR_TRY(CheckNesting());
  document_.consumed = position_;
  return std::move(document_);
}

Status PickleMachine::Execute(uint8_t opcode) {
  switch (opcode) {
    case kProto:
      return CheckProtocol();
    case kFrame:
      return CheckFrame();
    case kStop: {
      LR_ASSIGN(document_.root, Pop());
      stopped_ = true;
      return {};
    }
    case kMark:
      marks_.push_back(stack_.size());
      return {};
    case kPopMark:
      return PopToMark().status();
    case kGlobal: {
      LR_ASSIGN(const std::string_view module, TakeLine());
      LR_ASSIGN(const std::string_view name, TakeLine());
      return PushGlobal(module, name);
    }
    case kStackGlobal:
      return PushStackGlobal();
    case kBinPersId:
      return PersistentLoad();
    case kReduce:
    case kNewObj:
      return Call();
    case kBuild:
      return Build();
    default:
      return ExecuteConstant(opcode);
  }
}

Status PickleMachine::ExecuteConstant(uint8_t opcode) {
  switch (opcode) {
    case kNone:
      Push({.kind = PickleKind::kNone});
      return {};
    case kNewTrue:
    case kNewFalse:
      Push({.kind = PickleKind::kBool, .integer = opcode == kNewTrue ? 1 : 0});
      return {};
    case kBinInt1:
      return PushInteger(1);
    case kBinInt2:
      return PushInteger(2);
    case kBinInt:
      return PushInteger(4);
    case kLong1:
      return PushLong();
    case kBinFloat:
      return PushFloat();
    default:
      return ExecuteText(opcode);
  }
}

Status PickleMachine::ExecuteText(uint8_t opcode) {
  switch (opcode) {
    case kShortBinString:
    case kShortBinUnicode:
      return PushText(PickleKind::kText, 1);
    case kBinUnicode:
      return PushText(PickleKind::kText, 4);
    case kBinUnicode8:
      return PushText(PickleKind::kText, 8);
    case kShortBinBytes:
      return PushText(PickleKind::kBytes, 1);
    case kBinBytes:
      return PushText(PickleKind::kBytes, 4);
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
    case kTuple:
      return PushMarked(PickleKind::kTuple);
    case kFrozenSet:
      return PushMarked(PickleKind::kSet);
    case kEmptyList:
      Push({.kind = PickleKind::kList});
      return {};
    case kEmptyDict:
      Push({.kind = PickleKind::kDict});
      return {};
    case kEmptySet:
      Push({.kind = PickleKind::kSet});
      return {};
    case kAppend:
      return Extend(PickleKind::kList, false);
    case kAppends:
      return Extend(PickleKind::kList, true);
    case kSetItem:
      return Extend(PickleKind::kDict, false);
    case kSetItems:
      return Extend(PickleKind::kDict, true);
    case kAddItems:
      return Extend(PickleKind::kSet, true);
    default:
      return ExecuteMemo(opcode);
  }
}

Status PickleMachine::ExecuteMemo(uint8_t opcode) {
  const bool is_get = opcode == kBinGet || opcode == kLongBinGet;
  const bool is_put = opcode == kBinPut || opcode == kLongBinPut;
  if (!is_get && !is_put && opcode != kMemoize) {
    return Fail(fmt::format("opcode 0x{:02x}, which no such file has", opcode));
  }
  uint64_t slot = memo_.size();
  if (is_get || is_put) {
    LR_ASSIGN(slot, TakeLittleEndian(opcode == kLongBinGet || opcode == kLongBinPut ? 4 : 1));
  }
  if (is_get) {
    if (slot >= memo_.size() || memo_[slot] == kNoPickleValue) {
      return Fail(fmt::format("a reference to slot {}, which is empty", slot));
    }
    stack_.push_back(memo_[slot]);
    return {};
  }
  // Python numbers its slots from 0 on: a far one would only be a way to claim memory.
  if (stack_.empty() || slot > bytes_.size()) {
    return Fail("nothing to remember, or no such slot");
  }
  if (slot >= memo_.size()) {
    memo_.resize(slot + 1, kNoPickleValue);
  }
  memo_[slot] = stack_.back();
  return {};
}

Status PickleMachine::CheckProtocol() {
  LR_ASSIGN(const uint64_t protocol, TakeLittleEndian(1));
  if (protocol < 2 || protocol > dialect_.highest_protocol) {
    return Fail(fmt::format("protocol {} (2 to {} are read)", protocol, dialect_.highest_protocol));
  }
  return {};
}

/// A frame announces how many bytes follow; beyond that it means nothing.
Status PickleMachine::CheckFrame() {
  LR_ASSIGN(const uint64_t length, TakeLittleEndian(8));
  if (length > bytes_.size() - position_) {
    return Fail(fmt::format("a frame of {} bytes that reaches past the end of the data", length));
  }
  return {};
}

Result<std::string_view> PickleMachine::Take(uint64_t count) {
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

Status PickleMachine::Fail(const std::string& what) const {
  return InvalidArgument("pickle, byte {}: {}", position_, what);
}

}  // namespace internal

Result<PickleDocument> ReadPickle(std::string_view bytes, const PickleDialect& dialect) {
  return internal::PickleMachine(bytes, dialect).Run();
}

}  // namespace lr::worker
