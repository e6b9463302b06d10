#pragma once
/// The host's end of one node's gRPC stream. Reads one message at a time, the next when the loop
/// has taken the last, so that a node cannot flood the host; writes what Send() queued. A broadcast
/// is encoded once for all streams.
///
/// Threads: Send(), Finish() and ReadNext() from the loop, the On… functions from gRPC; the queue
/// has a mutex because the last messages must leave after the loop has stopped. Keeps itself alive
/// until OnDone.

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "common/base/status.h"
#include "launcher/rendezvous/node_link.h"

namespace lr::launcher {

/// Encodes a message once, however many streams it goes to. Loop-confined.
class HostEncoder {
 public:
  const grpc::ByteBuffer& Encode(const SharedHostMessage& message);

 private:
  SharedHostMessage last_;
  grpc::ByteBuffer encoded_;
};

class NodeStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                         public NodeSink,
                         public std::enable_shared_from_this<NodeStream> {
 public:
  /// What the stream tells; called on gRPC's threads.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnMessage(const std::shared_ptr<NodeStream>& from, NodeMessage message) = 0;
    /// Nothing more comes from the node; may be called more than once.
    virtual void OnOver(const std::shared_ptr<NodeStream>& from, std::string why) = 0;
  };

  NodeStream(grpc::CallbackServerContext& context,
             std::shared_ptr<Listener> listener,
             std::shared_ptr<HostEncoder> encoder)
      : context_(context), listener_(std::move(listener)), encoder_(std::move(encoder)) {}

  /// Answers the call; the first message is read by ReadNext().
  void Begin();
  void ReadNext();

  void Send(const SharedHostMessage& message) override;
  void Finish() override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  /// Given by the host; loop only.
  int64_t id = 0;

 private:
  static Result<NodeMessage> Decode(grpc::ByteBuffer& bytes);
  void WriteNextLocked();
  void FinishWhenWrittenLocked();

  grpc::CallbackServerContext& context_;  ///< lives until OnDone
  const std::shared_ptr<Listener> listener_;
  const std::shared_ptr<HostEncoder> encoder_;
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
