#pragma once
/// (pure) The one reader of pickles: a stack machine for the opcodes that torch.save (protocol 2)
/// and torch's distributed checkpoints (protocols 2 to 5) use, nothing else (checkpoints.md 4.2.1).
///
/// Nothing is ever called or imported: a global is only a name, and a name that the caller's
/// dialect does not list is refused where it stands. What it reads becomes a PickleDocument, which
/// tensor_pickle.h, dcp_metadata_parser.h and dcp_value.h interpret. Errors are kInvalidArgument
/// and name the byte at which they arose. Memory is proportional to the input.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace lr::worker {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInteger,
  kFloat,
  kText,
  kBytes,
  kTuple,
  kList,
  kDict,
  kSet,
  kGlobal,
  kCall,  ///< a global applied to arguments: an instance of a class, or what a function returns
  kPersistent  ///< something kept outside; its one item is the identifier
};

inline constexpr uint32_t kNoPickleValue = UINT32_MAX;

/// Values refer to each other by index, so that neither deep nesting nor cycles in the input can
/// exhaust the stack or leak.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  uint32_t state = kNoPickleValue;   ///< what BUILD gave a kCall or kDict
  int64_t integer = 0;               ///< kBool, kInteger
  double number = 0.0;               ///< kFloat
  std::string_view text = {};        ///< kText, kBytes; "module.name" of kGlobal and kCall
  std::vector<uint32_t> items = {};  ///< elements; keys and values of kDict in turn; arguments
};

/// Valid as long as the bytes it was read from.
struct PickleDocument {
  std::vector<PickleValue> values;
  uint32_t root = 0;
  size_t consumed = 0;  ///< bytes up to and including STOP

  const PickleValue& operator[](uint32_t index) const { return values[index]; }
};

/// What a kind of file may contain.
struct PickleDialect {
  uint8_t highest_protocol = 2;
  bool has_persistent_ids = false;
  std::span<const std::string_view> globals;  ///< every "module.name" that may appear
};

/// The pickle at the start of `bytes`. No value of the result contains itself, and none is nested
/// deeper than 100 levels.
Result<PickleDocument> ReadPickle(std::string_view bytes, const PickleDialect& dialect);

namespace internal {

class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, const PickleDialect& dialect)
      : bytes_(bytes), dialect_(dialect) {}

  Result<PickleDocument> Run();

 private:
  Status Execute(uint8_t opcode);
  Status ExecuteConstant(uint8_t opcode);
  Status ExecuteText(uint8_t opcode);
  Status ExecuteContainer(uint8_t opcode);
  Status ExecuteMemo(uint8_t opcode);

  Result<std::string_view> Take(uint64_t count);
  Result<std::string_view> TakeLine();
  Result<uint64_t> TakeLittleEndian(size_t count);

  void Push(PickleValue value);
  Result<uint32_t> Pop();
  Result<std::vector<uint32_t>> PopToMark();
  Result<PickleValue*> Top(PickleKind kind);
  Status PushTuple(size_t count);
  Status PushText(PickleKind kind, size_t length_bytes);
  Status PushInteger(size_t bytes);
  Status PushLong();
  Status PushFloat();
  Status PushGlobal(std::string_view module, std::string_view name);
  Status PushStackGlobal();
  Status PushMarked(PickleKind kind);
  Status Extend(PickleKind kind, bool many);

  Status CheckProtocol();
  Status CheckFrame();
  Status PersistentLoad();
  Status Call();
  Status Build();
  Status CheckNesting() const;

  Status Fail(const std::string& what) const;

  std::string_view bytes_;
  const PickleDialect& dialect_;
  size_t position_ = 0;
  bool stopped_ = false;
  PickleDocument document_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::vector<uint32_t> memo_;
};

}  // namespace internal
}  // namespace lr::worker
