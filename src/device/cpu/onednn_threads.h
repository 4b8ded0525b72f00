// oneDNN's parallel regions on the threads that kernels share.
//
// Its library calls GCC's OpenMP run time, whose team meets at a barrier behind each region: one thread that a neighbour keeps
// from its core holds up all. The run time's functions that oneDNN calls are few, so they are implemented here, on base/threads.h,
// and oneDNN's loaded library is bound to them. Other libraries of the process keep their OpenMP.
#pragma once

namespace smelt::device {

/// Has oneDNN run its regions on the calling thread's team (threads::team()). If its library cannot be bound, it keeps its own
/// threads, and only their number follows the team's. Returns whether it was bound. Call it before oneDNN is used; more calls
/// than one do no harm.
bool onednn_uses_team();

}  // namespace smelt::device
