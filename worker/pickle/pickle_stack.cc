// (pure) What the opcodes of pickle_machine.cc do to stack and values, and the check that no value
// contains itself.
#include <bit>

#include "worker/pickle/pickle_machine.h"

namespace lr::worker::internal {

namespace {

constexpr size_t kDeepest = 100;

bool IsName(std::string_view full, std::string_view module, std::string_view name) {
  return full.size() == module.size() + 1 + name.size() && full.starts_with(module) &&
         full[module.size()] == '.' && full.ends_with(name);
}

}  // namespace

void PickleMachine::Push(PickleValue value) {
  stack_.push_back(static_cast<uint32_t>(document_.values.size()));
  document_.values.push_back(std::move(value));
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
  if (stack_.size() <= floor || document_[stack_.back()].kind != kind) {
    return Fail("a value of another kind than the one it is added to");
  }
  return &document_.values[stack_.back()];
}

Status PickleMachine::PushTuple(size_t count) {
  std::vector<uint32_t> items(count);
  for (size_t i = count; i > 0; --i) {
    LR_ASSIGN(items[i - 1], Pop());
  }
  Push({.kind = PickleKind::kTuple, .items = std::move(items)});
  return {};
}

Status PickleMachine::PushMarked(PickleKind kind) {
  LR_ASSIGN(std::vector<uint32_t> items, PopToMark());
  Push({.kind = kind, .items = std::move(items)});
  return {};
}

Status PickleMachine::PushText(PickleKind kind, size_t length_bytes) {
  LR_ASSIGN(const uint64_t length, TakeLittleEndian(length_bytes));
  LR_ASSIGN(const std::string_view text, Take(length));
  Push({.kind = kind, .text = text});
  return {};
}

/// Four bytes are signed, fewer are not.
Status PickleMachine::PushInteger(size_t bytes) {
  LR_ASSIGN(const uint64_t raw, TakeLittleEndian(bytes));
  Push({.kind = PickleKind::kInteger,
        .integer = bytes == 4 ? static_cast<int32_t>(raw) : static_cast<int64_t>(raw)});
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
  Push({.kind = PickleKind::kInteger, .integer = static_cast<int64_t>(raw)});
  return {};
}

Status PickleMachine::PushFloat() {
  LR_ASSIGN(const std::string_view raw, Take(8));
  uint64_t bits = 0;
  for (const char byte : raw) {  // the only big-endian number in a pickle
    bits = bits << 8 | static_cast<uint8_t>(byte);
  }
  Push({.kind = PickleKind::kFloat, .number = std::bit_cast<double>(bits)});
  return {};
}

Status PickleMachine::PushGlobal(std::string_view module, std::string_view name) {
  for (const std::string_view known : dialect_.globals) {
    if (IsName(known, module, name)) {
      Push({.kind = PickleKind::kGlobal, .text = known});
      return {};
    }
  }
  return Fail(fmt::format("the name {}.{}, which no such file has", module, name));
}

Status PickleMachine::PushStackGlobal() {
  LR_ASSIGN(const uint32_t name, Pop());
  LR_ASSIGN(const uint32_t module, Pop());
  if (document_[name].kind != PickleKind::kText || document_[module].kind != PickleKind::kText) {
    return Fail("a name that is not a text");
  }
  return PushGlobal(document_[module].text, document_[name].text);
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

Status PickleMachine::PersistentLoad() {
  if (!dialect_.has_persistent_ids) {
    return Fail("a reference to something outside the file (opcode 0x51)");
  }
  LR_ASSIGN(const uint32_t id, Pop());
  Push({.kind = PickleKind::kPersistent, .items = {id}});
  return {};
}

Status PickleMachine::Call() {
  LR_ASSIGN(const uint32_t arguments, Pop());
  LR_ASSIGN(const uint32_t callee, Pop());
  if (document_[callee].kind != PickleKind::kGlobal ||
      document_[arguments].kind != PickleKind::kTuple) {
    return Fail("a call of something that is not a name");
  }
  if (document_[callee].text == "collections.OrderedDict" && document_[arguments].items.empty()) {
    Push({.kind = PickleKind::kDict});
    return {};
  }
  std::vector<uint32_t> items = document_[arguments].items;
  Push({.kind = PickleKind::kCall, .text = document_[callee].text, .items = std::move(items)});
  return {};
}

Status PickleMachine::Build() {
  LR_ASSIGN(const uint32_t state, Pop());
  const bool is_dict = !stack_.empty() && document_[stack_.back()].kind == PickleKind::kDict;
  LR_ASSIGN(PickleValue * target, Top(is_dict ? PickleKind::kDict : PickleKind::kCall));
  if (target->state != kNoPickleValue) {
    return Fail("a second state for one object");
  }
  target->state = state;
  return {};
}

/// Depth-first from the root with a stack of its own: a value met again on its own path is a cycle.
Status PickleMachine::CheckNesting() const {
  enum class Mark : uint8_t { kNew, kOpen, kDone };

  struct Visit {
    uint32_t value;
    size_t next;
  };

  std::vector<Mark> marks(document_.values.size(), Mark::kNew);
  std::vector<Visit> path = {{document_.root, 0}};
  while (!path.empty()) {
    Visit& visit = path.back();
    const PickleValue& value = document_[visit.value];
    marks[visit.value] = Mark::kOpen;
    const bool has_state = value.state != kNoPickleValue;
    if (visit.next == value.items.size() + (has_state ? 1 : 0)) {
      marks[visit.value] = Mark::kDone;
      path.pop_back();
      continue;
    }
    const uint32_t child = visit.next < value.items.size() ? value.items[visit.next] : value.state;
    ++visit.next;
    if (marks[child] == Mark::kOpen) {
      return Fail("a value that contains itself");
    }
    if (marks[child] == Mark::kNew) {
      if (path.size() == kDeepest) {
        return Fail(fmt::format("values nested deeper than {} levels", kDeepest));
      }
      path.push_back({child, 0});
    }
  }
  return {};
}

}  // namespace lr::worker::internal
