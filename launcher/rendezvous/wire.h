#pragma once
/// Between the plain messages (messages.h) and rendezvous.proto. What comes from the wire is
/// checked here and nowhere else: sizes, counts and ranges, so that everything behind may
/// rely on them. Pure but for protobuf; any thread. Decoding fails with INVALID_ARGUMENT, naming
/// the field, its value and the limit.

#include "common/base/status.h"
#include "launcher/rendezvous/messages.h"
#include "launcher/rendezvous/sequence.h"

namespace lr::v1 {
class NodeMessage;
class HostMessage;
}  // namespace lr::v1

namespace lr::launcher {

inline constexpr int kLargestHello = 64 << 10;
inline constexpr int kLargestNodeMessage = 128 << 10;  ///< an ending with its last lines
inline constexpr int kLargestHostMessage = 4 << 20;    ///< an assignment of the largest run
inline constexpr int kMostLastLines = 50;
inline constexpr int kLongestLine = 1 << 10;      ///< of last_lines; longer ones are cut
inline constexpr int kLongestMessage = 16 << 10;  ///< of a program; longer ones are cut
inline constexpr int kMostFailures = 1 << 10;     ///< told in an outcome; more are left out
inline constexpr int kLongestStack = 48 << 10;    ///< of one rank; longer ones are cut
inline constexpr size_t kLongestFolderName = 128;
inline constexpr int kMostStacks = 64;       ///< in one message
inline constexpr int kMostBoards = 32;       ///< in one message
inline constexpr int kMostGroups = 16;       ///< of a board; more are left out
inline constexpr int kMostCheckpoints = 64;  ///< told in a survey; older ones are left out

v1::NodeMessage ToWire(const NodeMessage& message);
v1::HostMessage ToWire(const HostMessage& message);

Result<NodeMessage> FromWire(const v1::NodeMessage& wire);
Result<HostMessage> FromWire(const v1::HostMessage& wire);

/// The numbers that travel with a message, in either direction.
template <typename Wire>
Envelope TakeEnvelope(const Wire& wire) {
  return {wire.number(), wire.received()};
}

template <typename Wire>
void PutEnvelope(const Envelope& envelope, Wire& out) {
  out.set_number(envelope.number);
  out.set_received(envelope.received);
}

/// "DUPLICATE_RANK".
std::string_view RefusalCodeName(RefusalCode code);

}  // namespace lr::launcher
