#pragma once
/// (pure) The stack machine behind tensor_pickle.h. Values live in one arena and refer to each
/// other by index, so that neither deep nesting nor cycles in the input can exhaust the stack or
/// leak.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "worker/nn/tensor_pickle.h"

namespace lr::worker::internal {

enum class PickleKind {
  kNone,
  kBool,
  kInteger,
  kFloat,
  kText,
  kTuple,
  kList,
  kDict,
  kGlobal,
  kStorage,
  kTensor
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  int64_t integer = 0;          ///< kBool, kInteger; index of the storage or tensor
  std::string text;             ///< kText; "module.name" of kGlobal
  std::vector<uint32_t> items;  ///< elements; keys and values of kDict in turn
};

class PickleMachine {
 public:
  explicit PickleMachine(std::string_view bytes) : bytes_(bytes) {}

  /// Runs to STOP; once.
  Status Run();

  const PickleValue& root() const { return values_[root_]; }

  const PickleValue& value(uint32_t index) const { return values_[index]; }

  std::vector<PickledStorage>& storages() { return storages_; }

  std::vector<PickledTensor>& tensors() { return tensors_; }

  size_t consumed() const { return position_; }

 private:
  Status Execute(uint8_t opcode);
  Status ExecuteConstant(uint8_t opcode);
  Status ExecuteContainer(uint8_t opcode);
  Status ExecuteMemo(uint8_t opcode);

  Result<std::string_view> Take(size_t count);
  Result<std::string_view> TakeLine();
  Result<uint64_t> TakeLittleEndian(size_t count);

  void Push(PickleValue value);
  Result<uint32_t> Pop();
  Result<std::vector<uint32_t>> PopToMark();
  Result<PickleValue*> Top(PickleKind kind);
  Status PushTuple(size_t count);
  Status PushText(size_t length_bytes);
  Status PushLong();
  Status Extend(PickleKind kind, bool many);

  Status PersistentLoad();
  Status Reduce();
  Status Build();
  Status RebuildTensor(const std::vector<uint32_t>& arguments);
  Result<std::vector<int64_t>> Integers(uint32_t tuple) const;

  Status Fail(const std::string& what) const;

  std::string_view bytes_;
  size_t position_ = 0;
  bool stopped_ = false;
  uint32_t root_ = 0;
  std::vector<PickleValue> values_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, uint32_t> memo_;
  std::unordered_map<std::string, size_t> storage_of_key_;
  std::vector<PickledStorage> storages_;
  std::vector<PickledTensor> tensors_;
};

}  // namespace lr::worker::internal
