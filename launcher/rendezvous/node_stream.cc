#include "launcher/rendezvous/node_stream.h"

#include <utility>

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include "proto/lr/v1/rendezvous.grpc.pb.h"

#include "common/base/check.h"
#include "launcher/rendezvous/wire.h"

namespace lr::launcher {
namespace {

constexpr size_t kMostQueued = 1000;  // messages; a node that is so far behind does not read

}  // namespace

const grpc::ByteBuffer& HostEncoder::Encode(const SharedHostMessage& message) {
  if (message != last_) {
    bool own_buffer = false;
    grpc::ByteBuffer bytes;
    const grpc::Status encoded = grpc::SerializationTraits<v1::HostMessage>::Serialize(
        ToWire(*message), &bytes, &own_buffer);
    LR_CHECK(encoded.ok(), "a message of ours cannot be encoded: {}", encoded.error_message());
    encoded_ = bytes;
    last_ = message;
  }
  return encoded_;
}

// ---- from the loop

void NodeStream::Begin() {
  self_ = shared_from_this();
  StartSendInitialMetadata();  // the node learns that somebody is here
}

void NodeStream::ReadNext() {
  const std::lock_guard lock(mutex_);
  if (!finished_) {
    StartRead(&incoming_);
  }
}

void NodeStream::Send(const SharedHostMessage& message) {
  const grpc::ByteBuffer& bytes = encoder_->Encode(message);
  const std::lock_guard lock(mutex_);
  if (finishing_ || broken_) {
    return;
  }
  outbox_.push_back(bytes);
  WriteNextLocked();
  if (outbox_.size() > kMostQueued && !finished_) {
    broken_ = finishing_ = true;
    context_.TryCancel();  // ends the write that is stuck
    listener_->OnOver(self_, fmt::format("{} messages wait for it: it does not read", kMostQueued));
  }
}

void NodeStream::Finish() {
  const std::lock_guard lock(mutex_);
  finishing_ = true;
  FinishWhenWrittenLocked();
}

// ---- from gRPC

Result<NodeMessage> NodeStream::Decode(grpc::ByteBuffer& bytes) {
  v1::NodeMessage wire;
  const grpc::Status decoded =
      grpc::SerializationTraits<v1::NodeMessage>::Deserialize(&bytes, &wire);
  if (!decoded.ok()) {
    return InvalidArgument("it is not a message of this protocol");
  }
  return FromWire(wire);
}

void NodeStream::OnReadDone(bool ok) {
  if (!ok) {
    return listener_->OnOver(shared_from_this(), "its connection closed");
  }
  Result<NodeMessage> message = Decode(incoming_);
  if (!message.ok()) {
    return listener_->OnOver(
        shared_from_this(),
        fmt::format("it sent something unusable: {}", message.status().message()));
  }
  listener_->OnMessage(shared_from_this(), std::move(message).value());
}

void NodeStream::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  outbox_.pop_front();
  if (!ok) {
    broken_ = true;
  }
  WriteNextLocked();
  if (finishing_) {
    FinishWhenWrittenLocked();
  }
}

void NodeStream::OnCancel() {
  listener_->OnOver(shared_from_this(), "its connection was cut");
}

void NodeStream::OnDone() {
  const std::shared_ptr<NodeStream> self = std::move(self_);
  listener_->OnOver(self, "its stream ended");
}

// ---- with the mutex held

void NodeStream::WriteNextLocked() {
  if (broken_ && !writing_) {
    outbox_.clear();
  }
  if (!writing_ && !outbox_.empty()) {
    writing_ = true;
    StartWrite(&outbox_.front());
  }
}

void NodeStream::FinishWhenWrittenLocked() {
  if (!writing_ && (outbox_.empty() || broken_) && !std::exchange(finished_, true)) {
    ServerBidiReactor::Finish(grpc::Status::OK);
  }
}

}  // namespace lr::launcher
