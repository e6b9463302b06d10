#include "launcher/rendezvous/node_session.h"

#include <array>
#include <utility>

#include "proto/lr/v1/rendezvous.pb.h"

#include "launcher/rendezvous/wire.h"

namespace lr::launcher {
namespace {

/// A message of protobuf is the sum of its parts: the numbers may stand behind the rest.
grpc::Slice EncodeEnvelope(const Envelope& envelope) {
  v1::HostMessage wire;
  PutEnvelope(envelope, wire);
  return grpc::Slice(wire.SerializeAsString());
}

}  // namespace

const grpc::Slice& HostEncoder::Encode(const SharedHostMessage& message) {
  if (message != last_) {
    encoded_ = grpc::Slice(ToWire(*message).SerializeAsString());
    last_ = message;
  }
  return encoded_;
}

grpc::ByteBuffer EncodeChallenge(const Doorkeeper::Challenge& challenge,
                                 const std::string& run_id) {
  v1::HostMessage wire;
  wire.mutable_challenge()->set_nonce(challenge.nonce);
  wire.mutable_challenge()->set_proof(challenge.proof);
  wire.mutable_challenge()->set_run_id(run_id);
  const grpc::Slice bytes(wire.SerializeAsString());
  return {&bytes, 1};
}

NodeSession::NodeSession(boost::asio::io_context& loop,
                         std::shared_ptr<HostEncoder> encoder,
                         std::shared_ptr<NodeStream> stream,
                         const Hello& hello)
    : node_id(hello.identity.node_id),
      seen_from(stream->seen_from),
      live_port(hello.live_port),
      timer(loop),
      encoder_(std::move(encoder)),
      stream_(std::move(stream)) {}

void NodeSession::Send(const SharedHostMessage& message) {
  if (finished_) {
    return;
  }
  const grpc::Slice& body = encoder_->Encode(message);
  const uint64_t number = sent_.Add(body);
  if (stream_) {
    Write(body, number);
  }
}

void NodeSession::Finish() {
  finished_ = true;
  if (stream_) {
    stream_->Finish();
  }
}

Result<Arrival> NodeSession::Take(const Envelope& envelope) {
  if (!sent_.Confirm(envelope.received)) {
    return InvalidArgument("it confirms what was never sent");
  }
  const Arrival arrival = received_.Take(envelope.number);
  if (arrival == Arrival::kGap) {
    return InvalidArgument("message {} came after {}", envelope.number, received_.last());
  }
  return arrival;
}

void NodeSession::Detach() {
  stream_.reset();
}

bool NodeSession::Resume(std::shared_ptr<NodeStream> stream, uint64_t received) {
  if (!sent_.Confirm(received)) {
    return false;
  }
  probe.reset();
  timer.cancel();
  stream_ = std::move(stream);
  v1::HostMessage resumed;
  resumed.mutable_resumed();
  Write(grpc::Slice(resumed.SerializeAsString()), 0);
  sent_.ForEach([this](const grpc::Slice& body, uint64_t number) { Write(body, number); });
  if (finished_) {
    stream_->Finish();
  }
  return true;
}

void NodeSession::Write(const grpc::Slice& body, uint64_t number) {
  const std::array parts = {body, EncodeEnvelope({number, received_.last()})};
  stream_->Send(grpc::ByteBuffer(parts.data(), parts.size()));
}

}  // namespace lr::launcher
