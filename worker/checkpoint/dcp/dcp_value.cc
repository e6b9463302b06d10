// (pure) One visitor to write, one switch to read.
#include "worker/checkpoint/dcp/dcp_value.h"

#include <algorithm>

#include "worker/pickle/pickle_machine.h"
#include "worker/pickle/pickle_writer.h"

namespace lr::worker {
namespace {

constexpr size_t kBatch = 1000;  // of items that Python's pickler adds at once

struct Pickler {
  PickleWriter& writer;

  void operator()(std::monostate) const { writer.None(); }

  void operator()(bool value) const { writer.Bool(value); }

  void operator()(int64_t value) const { writer.Integer(value); }

  void operator()(double value) const { writer.Float(value); }

  void operator()(const std::string& value) const { writer.Text(value); }

  void operator()(const std::vector<double>& values) const {
    const bool is_long = values.size() > 3;
    if (is_long) {
      writer.Mark();
    }
    for (const double value : values) {
      writer.Float(value);
    }
    if (is_long) {
      writer.TupleFromMark();
    } else {
      writer.Tuple(values.size());
    }
    if (!values.empty()) {
      writer.Remember();
    }
  }

  void operator()(const std::vector<std::string>& texts) const {
    writer.EmptyList();
    writer.Remember();
    for (size_t begin = 0; begin < texts.size(); begin += kBatch) {
      const size_t end = std::min(begin + kBatch, texts.size());
      if (end - begin == 1) {
        writer.Text(texts[begin]);
        writer.Append();
        continue;
      }
      writer.Mark();
      for (size_t i = begin; i < end; ++i) {
        writer.Text(texts[i]);
      }
      writer.AppendsFromMark();
    }
  }
};

Result<DcpValue> NumbersOf(const PickleDocument& document, const PickleValue& tuple) {
  std::vector<double> numbers;
  for (const uint32_t index : tuple.items) {
    const PickleValue& item = document[index];
    if (item.kind != PickleKind::kFloat && item.kind != PickleKind::kInteger) {
      return InvalidArgument("a tuple of something else than numbers");
    }
    numbers.push_back(item.kind == PickleKind::kFloat ? item.number
                                                      : static_cast<double>(item.integer));
  }
  return DcpValue(std::move(numbers));
}

/// No more text than the pickle has: references to one text could claim far more.
Result<DcpValue> TextsOf(const PickleDocument& document, const PickleValue& list) {
  std::vector<std::string> texts;
  size_t size = 0;
  for (const uint32_t index : list.items) {
    if (document[index].kind != PickleKind::kText) {
      return InvalidArgument("a list of something else than texts");
    }
    size += document[index].text.size();
    if (size > document.consumed) {
      return InvalidArgument("a list that repeats its texts");
    }
    texts.emplace_back(document[index].text);
  }
  return DcpValue(std::move(texts));
}

}  // namespace

std::string PickleDcpValue(const DcpValue& value) {
  PickleWriter writer;
  std::visit(Pickler{writer}, value);
  return std::move(writer).Finish();
}

Result<DcpValue> ParseDcpValue(std::string_view pickle) {
  LR_ASSIGN(const PickleDocument document, ReadPickle(pickle, {.globals = {}}));
  const PickleValue& root = document[document.root];
  switch (root.kind) {
    case PickleKind::kNone:
      return DcpValue();
    case PickleKind::kBool:
      return DcpValue(root.integer != 0);
    case PickleKind::kInteger:
      return DcpValue(root.integer);
    case PickleKind::kFloat:
      return DcpValue(root.number);
    case PickleKind::kText:
      return DcpValue(std::string(root.text));
    case PickleKind::kTuple:
      return NumbersOf(document, root);
    case PickleKind::kList:
      return TextsOf(document, root);
    default:
      return InvalidArgument("a value of a kind that no option has");
  }
}

}  // namespace lr::worker
