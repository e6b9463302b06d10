#pragma once
/// The record of a run on disk: run.json (what it is and how it stands, replaced atomically) and
/// events.jsonl (one decision per line, with its reason), which may also go elsewhere. Owned by the
/// App; all calls return at once, one own thread does the writing. A disk that fails is said once
/// and never disturbs the run.

#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/io/json.h"

namespace lr::launcher {

class RunRecord {
 public:
  struct Options {
    std::string directory;    ///< is created; empty: no files of the record's own
    std::string events_copy;  ///< another file that gets every event; empty: none
    std::function<void(const std::string& lines)> events_said;  ///< events for people; may be empty
    std::function<void(const std::string&)> warn;               ///< the first failure to write
  };

  /// The functions are called from the writing thread.
  static Result<std::unique_ptr<RunRecord>> Create(Options options);

  virtual ~RunRecord() = default;

  /// Sets top-level keys of run.json and has it written; updates that come quickly are written
  /// once.
  virtual void Set(const Json& fields) = 0;

  /// One line of events.jsonl: time, `event`, then the fields.
  virtual void Event(const std::string& event, const Json& fields) = 0;

  /// A file of its own in the run's directory, "stacks/hang-1-1/rank_2.txt"; replaces an older one.
  virtual void Attach(const std::string& name, const std::string& text) = 0;

  /// run.json as it stands.
  virtual Json Snapshot() const = 0;

  /// Returns once everything so far is on disk.
  virtual void Flush() = 0;
};

}  // namespace lr::launcher
