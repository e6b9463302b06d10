#pragma once
/// (pure) The messages between a node and the host of its run, as plain data (spec 3.9). The same
/// structs travel inside one process and, through wire.h, over gRPC. Who tags a message with an
/// epoch may be late: messages of another epoch are ignored.

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "launcher/plan/assignment.h"
#include "launcher/plan/resume_choice.h"
#include "launcher/plan/worker_board.h"
#include "launcher/rendezvous/run_types.h"

namespace lr::launcher {

inline constexpr int kProtocolVersion = 2;

// ---- node -> host

/// First message of a node.
struct Hello {
  NodeIdentity identity;
  int protocol = kProtocolVersion;
  int live_port = 0;      ///< of the node's LiveSocket; 0: it has none
  std::string seen_from;  ///< filled by the host's side: the address the stream came from
  bool local = false;  ///< filled by the host's side: the host's own node, which cannot fall silent
};

/// Rank 0's node answers Reserve: where the workers' store will be, or why it cannot be there.
struct Reserved {
  int64_t epoch = 0;
  std::string address;
  int port = 0;
  std::string problem;                         ///< not empty: no endpoint, in words
  std::vector<std::string> alternatives = {};  ///< addresses to be tried where that one fails
};

/// The node accepts the assignment; `problem`: it cannot reach rank 0's node.
struct Ack {
  int64_t epoch = 0;
  std::string problem;
  std::string address = {};  ///< of rank 0's node, as it was assigned; empty: whatever it is
};

struct Beat {
  int64_t sent_unix_ns = 0;
};

/// How far this node's native workers have come, when that changed (S-20).
struct Progress {
  int64_t epoch = 0;
  TrainingProgress now;
};

/// What native workers of this node do (S-20), where that changed; a sign of life now and then.
struct Boards {
  int64_t epoch = 0;
  std::vector<WorkerBoard> boards;
};

/// Answers a request for stacks, one rank at a time.
struct Stacks {
  int64_t epoch = 0;
  std::string id;
  std::vector<RankStack> ranks;
  bool last = false;  ///< nothing more comes from this node
};

/// Answers Survey.
struct Surveyed {
  int64_t epoch = 0;
  CheckpointView view;
};

/// A save of one of this node's workers began or ended.
struct Saved {
  int64_t epoch = 0;
  SaveNews news;
};

struct Ended {
  int64_t epoch = 0;
  WorkerEnding ending;
};

struct Stopped {
  int64_t epoch = 0;
};

struct StopRequest {
  StopOrder order;
};

struct ControlAsk {
  ControlRequest request;
};

/// Leaves in order.
struct Bye {
  std::string reason;
};

using NodeMessage = std::variant<Hello,
                                 Reserved,
                                 Surveyed,
                                 Ack,
                                 Beat,
                                 Progress,
                                 Boards,
                                 Stacks,
                                 Saved,
                                 Ended,
                                 Stopped,
                                 StopRequest,
                                 ControlAsk,
                                 Bye>;

// ---- host -> node

/// Why a node may not take part (spec 3.6). Refused ends the stream.
enum class RefusalCode {
  kWrongRun,
  kVersion,
  kPlanMismatch,
  kDuplicateRank,
  kDuplicateNode,
  kRankOutOfRange,
  kRankMissing,
  kFull,
  kClosed,
  kTooLarge,
  kJoinTimeout,
  kEndpoint,
  kUnreachable,
  kHostLeft,
  kProtocol,
  kExcluded,
  kWrongToken,
};

struct Refused {
  RefusalCode code = RefusalCode::kClosed;
  int exit_code = 76;  ///< 75: timed out or the host is gone; 76: refused; 77: no access
  std::string text;    ///< one line for the user
};

/// Who is here and who is missing.
struct Waiting {
  std::string text;
  bool spare = false;  ///< the run goes on without this node, which may wait for as long as it does
};

/// To rank 0's node alone: hold a port for the workers' store.
struct Reserve {
  int64_t epoch = 0;
  std::string seen_from;  ///< where the host sees this node
};

/// To the nodes of an epoch that may go on from a checkpoint: what is there (C-20)?
struct Survey {
  int64_t epoch = 0;
  std::string output_dir;
};

struct Assign {
  Assignment assignment;
};

struct Go {
  int64_t epoch = 0;
};

struct Stop {
  int64_t epoch = 0;
  StopOrder order;
};

struct Control {
  ControlRequest request;
};

/// What became of a requested checkpoint so far.
struct RequestUpdate {
  CheckpointResult result;
};

/// Answers a Beat; carries the host's clock for the order of endings (S-11).
struct BeatEcho {
  int64_t sent_unix_ns = 0;  ///< as in the Beat
  int64_t host_unix_ns = 0;
};

/// The epoch is over, its workers are gone, and another one is formed of the same run.
struct Reforming {
  int64_t epoch = 0;
  RunOutcome ended;  ///< how the epoch ended; `next` says what follows
};

struct Watched {
  int64_t epoch = 0;
  WatchReport report;
};

struct Closed {
  RunOutcome outcome;
};

using HostMessage = std::variant<Refused,
                                 Waiting,
                                 Reserve,
                                 Survey,
                                 Assign,
                                 Go,
                                 Stop,
                                 Control,
                                 RequestUpdate,
                                 BeatEcho,
                                 Reforming,
                                 Watched,
                                 Closed>;

/// A broadcast shares one message between all its receivers.
using SharedHostMessage = std::shared_ptr<const HostMessage>;

}  // namespace lr::launcher
