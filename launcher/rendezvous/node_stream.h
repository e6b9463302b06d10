#pragma once
/// The host's end of one node's gRPC connection. Reads one message at a time, the next when the
/// loop has taken the last, so that a node cannot flood the host; writes what Send() queued. Knows
/// neither numbers nor resumption: node_session.h.
///
/// Threads: Send(), Finish() and ReadNext() from the loop, the On… functions from gRPC; the queue
/// has a mutex because the last messages must leave after the loop has stopped. Keeps itself alive
/// until OnDone.

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "common/base/status.h"
#include "launcher/rendezvous/messages.h"
#include "launcher/rendezvous/sequence.h"

namespace lr::launcher {

class NodeSession;

/// Goes on with a stream whose connection broke.
struct Resume {
  std::string node_id;
  uint64_t session = 0;
};

/// Answers a challenge.
struct TokenProof {
  std::string proof;
};

/// One message of a node as it arrives.
struct Incoming {
  Envelope envelope;
  std::variant<NodeMessage, Resume, TokenProof> body;
  uint64_t session = 0;    ///< of a Hello
  std::string nonce = {};  ///< of a Hello or Resume
};

class NodeStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                         public std::enable_shared_from_this<NodeStream> {
 public:
  /// What the stream tells; called on gRPC's threads.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnMessage(const std::shared_ptr<NodeStream>& from, Incoming message) = 0;
    /// Nothing more comes from the node; may be called more than once.
    virtual void OnOver(const std::shared_ptr<NodeStream>& from, std::string why) = 0;
  };

  NodeStream(grpc::CallbackServerContext& context, std::shared_ptr<Listener> listener)
      : context_(context), listener_(std::move(listener)) {}

  /// Answers the call; the first message is read by ReadNext().
  void Begin();
  void ReadNext();

  void Send(grpc::ByteBuffer message);

  /// Ends the connection after what was sent; idempotent.
  void Finish();

  /// Ends it now: another connection takes its place.
  void Cut();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Loop only.
  std::string seen_from;                 ///< the address that it came from
  std::shared_ptr<NodeSession> session;  ///< once the node has introduced itself
  bool trusted = false;                  ///< its token was right, or none is needed
  std::string challenge;                 ///< the host's nonce, while a proof is expected
  std::optional<Incoming> first;         ///< what it said, until then

 private:
  static Result<Incoming> Decode(grpc::ByteBuffer& bytes);
  void WriteNextLocked();
  void FinishWhenWrittenLocked();

  grpc::CallbackServerContext& context_;  ///< lives until OnDone
  const std::shared_ptr<Listener> listener_;
  std::shared_ptr<NodeStream> self_;
  grpc::ByteBuffer incoming_;

  std::mutex mutex_;  // leaf: guards the rest
  std::deque<grpc::ByteBuffer> outbox_;
  bool writing_ = false;
  bool finishing_ = false;  ///< nothing is queued any more
  bool finished_ = false;   ///< gRPC was told
  bool broken_ = false;     ///< writes are pointless
};

}  // namespace lr::launcher
