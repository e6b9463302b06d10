#pragma once
/// One collection of the stacks of this node's workers (S-23): native workers walk their own, the
/// kernel tells the rest. Loop-confined, owned by the App; reports once, from the loop, when all
/// that were asked have answered or the limit is over. Never fails: the text says what is missing.

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/rendezvous/run_types.h"
#include "launcher/supervise/worker_group.h"

namespace lr::launcher {

class StackCollection {
 public:
  struct Member {
    RunningWorker worker;
    std::string place;   ///< "step 5, phase data for 2.0 s"; empty: it does not tell
    bool asked = false;  ///< answers by itself
  };

  StackCollection(boost::asio::io_context& loop,
                  std::vector<Member> members,
                  std::function<void(std::vector<RankStack>)> done);

  /// A worker's answer.
  void Add(int rank, const std::string& text);

 private:
  std::string TextOf(const Member& member) const;
  void Finish();

  const std::vector<Member> members_;
  std::function<void(std::vector<RankStack>)> done_;  ///< empty once it was called
  std::map<int, std::string> answers_;
  boost::asio::steady_timer limit_;
};

}  // namespace lr::launcher
