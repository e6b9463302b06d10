// The pickle of each item, and LibTorch's own archive writer around it.
#include "worker/checkpoint/dcp/dcp_shard_file.h"

#include <caffe2/serialize/inline_container.h>
#include <exception>

#include <fmt/format.h>

#include "worker/checkpoint/dcp/dcp_tensor_type.h"
#include "worker/pickle/pickle_writer.h"

namespace lr::worker {
namespace {

/// data.pkl of a contiguous tensor; the memo numbers are Python's.
std::string PickleTensor(const at::Tensor& tensor, const DcpDtype& dtype) {
  PickleWriter writer;
  writer.Global("torch._utils._rebuild_tensor_v2");
  writer.Mark();
  writer.Mark();
  writer.Text("storage");
  writer.Global(fmt::format("torch.{}", dtype.storage));
  writer.Text("0");
  writer.Text("cpu");
  writer.Integer(tensor.numel());
  writer.TupleFromMark();
  writer.Remember();
  writer.Persistent();
  writer.Integer(0);  // offset within the storage
  for (const c10::IntArrayRef numbers : {tensor.sizes(), tensor.strides()}) {
    writer.Integers({numbers.data(), numbers.size()});
    if (!numbers.empty()) {
      writer.Remember();
    }
  }
  writer.Bool(false);  // requires_grad
  writer.Global("collections.OrderedDict");
  writer.Tuple(0);
  writer.Call();
  writer.Remember();  // no hooks
  writer.TupleFromMark();
  writer.Remember();
  writer.Call();
  writer.Remember();
  return std::move(writer).Finish();
}

/// The records in torch's order. The two that only torch >= 2.7 writes let it compute where the
/// data lies; they are right because order and names are torch's too.
Status WriteArchive(DurableFile& file, const std::string& pickle, const at::Tensor* data) {
  Status written;
  const auto sink = [&](const void* bytes, size_t size) -> size_t {
    if (written.ok()) {
      written = file.Write({static_cast<const char*>(bytes), size});
    }
    return written.ok() ? size : 0;
  };
  try {
    caffe2::serialize::PyTorchStreamWriter archive(sink);
    const auto record = [&](const char* name, std::string_view bytes) {
      archive.writeRecord(name, bytes.data(), bytes.size());
    };
    record("data.pkl", pickle);
    record(".format_version", "1");
    record(".storage_alignment", "64");
    record("byteorder", "little");
    if (data != nullptr) {
      record("data/0", {static_cast<const char*>(data->const_data_ptr()), data->nbytes()});
    }
    archive.writeEndOfFile();
  } catch (const std::exception& error) {  // LibTorch's archive writer
    return written.ok() ? Internal("writing an archive: {}", error.what()) : written;
  }
  return written;
}

Status WriteItem(DurableFile& file, const DcpItem& item) {
  if (const auto* value = std::get_if<DcpValue>(&item)) {
    return WriteArchive(file, PickleDcpValue(*value), nullptr);
  }
  const auto& tensor = std::get<at::Tensor>(item);
  const DcpDtype* dtype = DcpDtypeOf(tensor.scalar_type());
  if (dtype == nullptr) {
    return Unimplemented("a tensor of dtype {} cannot be written",
                         c10::toString(tensor.scalar_type()));
  }
  const at::Tensor host = tensor.detach().cpu().contiguous();
  return WriteArchive(file, PickleTensor(host, *dtype), &host);
}

}  // namespace

std::string DcpShardName(int rank) {
  return fmt::format("__{}_0.distcp", rank);
}

Result<DcpShardFile> WriteDcpShard(const std::filesystem::path& directory,
                                   int rank,
                                   const std::vector<DcpItem>& items) {
  DcpShardFile shard;
  const std::string name = DcpShardName(rank);
  LR_ASSIGN(DurableFile file, DurableFile::Create(directory / name));
  for (const DcpItem& item : items) {
    const uint64_t begin = file.size();
    LR_TRY(WriteItem(file, item).WithContext("item {} of '{}'", shard.locations.size(), name));
    shard.locations.push_back({name, begin, file.size() - begin});
  }
  LR_ASSIGN(shard.file, file.Finish());
  return shard;
}

}  // namespace lr::worker
