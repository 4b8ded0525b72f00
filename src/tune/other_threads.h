// What timings that were taken with one number of threads say about another: a step that runs on the caller's thread alone takes the
// same with any, and of those that the team shares what is far behind stays behind.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/tactic.h"
#include "tune/cache.h"

namespace smelt::tune {

/// A cache key's device, where it is a processor with a team: "AMD EPYC 7B13, avx2, 2 threads, weights in caches".
struct TeamDevice {
  std::string processor;  // "AMD EPYC 7B13, avx2"
  int threads = 0;
  std::string state;  // ", weights in caches", or nothing
};
/// Nothing for a GPU, and for what is no such text.
std::optional<TeamDevice> team_device(std::string_view device);

/// How far behind the fastest with another number of threads what shares the team may have been, and be measured in the first round.
constexpr double near_elsewhere = 1.5;

/// What a region of several threads takes at least beyond its work, up to which gains are noise, too (docs/threads.md).
constexpr double region_us = 0.2;

/// The timing of an entry for `from` threads, as one of an entry for `to` threads. A candidate whose runs had `width` threads of `from`,
/// fewer than all, has as many of `to` as there are, and takes the same where these are enough. One that had all shares what it does
/// evenly: it takes from / to times as long. So does one whose width is not known, and one that was measured with one thread, until it
/// has been run with more.
Timing with_other_threads(Timing t, int from, int to);

/// What a run takes, microseconds: at least, by the timing, and at most.
struct Bounds {
  double least = 0, us = 0, most = 0;
  Bounds& operator+=(const Bounds& o) {
    least += o.least, us += o.us, most += o.most;
    return *this;
  }
};
/// Of what is sure its time three times. With more threads than it was measured with a run takes no less than an even share of the
/// work (and region_us, which one thread had not), and no more than before; with fewer no more than if the work was evenly shared before, and no less than by the root of that:
/// half of what the other threads were there for, they did.
Bounds bounds(const Timing& t);

/// Of the candidates worth measuring those that are to be measured, by timings of which some are not sure: those without a timing;
/// where nothing is sure yet, what is at most near_elsewhere times the fastest; then what may be less than the fastest that is sure.
/// None where the timings decide.
std::vector<size_t> unsettled(std::span<const Timing> timings, const ops::Offer& offer, std::span<const size_t> worth);

/// Whether timings of ways to compute the same tell which is the faster: all are sure, or one takes at most what each of the others
/// takes at least, or near_elsewhere times less where all had the same threads.
bool settles(std::span<const Timing> ways);

/// One entry for `key` of what the others say, of this or a higher level, of the same processor: of each candidate what was measured with the
/// nearest number of threads, where there is such in the same state of the caches: whether a model's weights lie in its threads' caches
/// depends on their number. Nothing where they say nothing. `under_load`: so do entries of which
/// some was measured beside other work.
std::optional<CacheEntry> from_other_threads(std::span<const CacheEntry> others, const CacheKey& key, int level,
                                             bool under_load = false);

/// Entries as text for a plan's file: "@device<tab>versions", "=problem<tab>level", and for each timing
/// "<tab>tactic<tab>config<tab>fastest<tab>quartile<tab>samples<tab>width<tab>with threads<tab>scaled".
std::string to_text(std::span<const CacheEntry> entries);
/// What reads of it; of a problem that is there twice, the later.
std::vector<CacheEntry> entries_in(std::string_view text);

}  // namespace smelt::tune
