#pragma once
/// Pieces that messages of both directions share, for wire_node.cc and wire_host.cc alone. Any
/// thread; Take() checks ranges and fails with INVALID_ARGUMENT.

#include <cstdint>
#include <string_view>

#include "proto/lr/v1/rendezvous.pb.h"

#include "common/base/status.h"
#include "launcher/rendezvous/run_types.h"

namespace lr::launcher::wire {

inline constexpr int kLargestExitCode = 255;
inline constexpr int kLargestPort = 65'535;

/// "port is 70000, not 0 to 65535".
Status CheckRange(std::string_view field, int64_t value, int64_t low, int64_t high);

/// Ids of stacks become folders of the run directory: one plain name, whoever sent it.
Status CheckFolderName(std::string_view field, const std::string& name);

void PutEnding(const WorkerEnding& ending, v1::Ending& out);
void PutOrder(const StopOrder& order, v1::StopOrder& out);
void PutRequest(const ControlRequest& request, v1::Request& out);
void PutStacks(const std::vector<RankStack>& stacks,
               google::protobuf::RepeatedPtrField<v1::RankStack>& out);

Result<WorkerEnding> TakeEnding(const v1::Ending& wire);
Result<StopOrder> TakeOrder(const v1::StopOrder& wire);
Result<ControlRequest> TakeRequest(const v1::Request& wire);
Result<std::vector<RankStack>> TakeStacks(
    const google::protobuf::RepeatedPtrField<v1::RankStack>& wire);

}  // namespace lr::launcher::wire
