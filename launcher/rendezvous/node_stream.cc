#include "launcher/rendezvous/node_stream.h"

#include <utility>

#include <grpcpp/support/proto_buffer_reader.h>

#include "proto/lr/v1/rendezvous.grpc.pb.h"

#include "launcher/rendezvous/wire.h"

namespace lr::launcher {
namespace {

constexpr size_t kMostQueued = 2000;  // messages; a node that is so far behind does not read

}  // namespace

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

void NodeStream::Send(grpc::ByteBuffer message) {
  const std::lock_guard lock(mutex_);
  if (finishing_ || broken_) {
    return;
  }
  outbox_.push_back(std::move(message));
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

void NodeStream::Cut() {
  const std::lock_guard lock(mutex_);
  if (!finished_) {
    broken_ = finishing_ = true;
    context_.TryCancel();
    FinishWhenWrittenLocked();
  }
}

// ---- from gRPC

Result<Incoming> NodeStream::Decode(grpc::ByteBuffer& bytes) {
  v1::NodeMessage wire;
  const grpc::Status decoded =
      grpc::SerializationTraits<v1::NodeMessage>::Deserialize(&bytes, &wire);
  if (!decoded.ok()) {
    return InvalidArgument("it is not a message of this protocol");
  }
  if (wire.has_resume()) {
    const v1::NodeResume& resume = wire.resume();
    return Incoming{
        TakeEnvelope(wire), Resume{resume.node_id(), resume.session()}, 0, resume.nonce()};
  }
  if (wire.has_proof()) {
    return Incoming{TakeEnvelope(wire), TokenProof{wire.proof().proof()}};
  }
  LR_ASSIGN(NodeMessage message, FromWire(wire));
  return Incoming{
      TakeEnvelope(wire), std::move(message), wire.hello().session(), wire.hello().nonce()};
}

void NodeStream::OnReadDone(bool ok) {
  if (!ok) {
    return listener_->OnOver(shared_from_this(), "its connection closed");
  }
  Result<Incoming> message = Decode(incoming_);
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
