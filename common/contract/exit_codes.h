#pragma once

/// (pure) Exit codes of every program of ours (launcher_and_service.md 1.5).

namespace lr {

inline constexpr int kExitOk = 0;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInternal = 70;
inline constexpr int kExitPublishFailed = 74;
inline constexpr int kExitRendezvousTimeout = 75;
inline constexpr int kExitRendezvousRefused = 76;
inline constexpr int kExitPermission = 77;
inline constexpr int kExitConfigRefused = 78;
inline constexpr int kExitPreemptedSaved = 85;    ///< a new checkpoint is complete, requeue
inline constexpr int kExitPreemptedUnsaved = 86;  ///< requeue
inline constexpr int kExitDoNotRestart = 93;

}  // namespace lr
