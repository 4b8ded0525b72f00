// An Execution's recordings made and timed both ways: each kernel after the one before it, and beginning early.
#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/stop.h"
#include "run/execution.h"

namespace smelt::run {
namespace {

double median(std::vector<double>& samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::ranges::nth_element(samples, middle);
  return *middle;
}

}  // namespace

ExecutionImpl::BothWays ExecutionImpl::time_both_ways() {
  if (!first_ || !has_to_wait().empty() || first_->ranges.size() != 1) return {.why_not = "a run is not one recording"};
  SegmentState& state = *first_;
  std::array<std::unique_ptr<Recording>, 2> ways;  // late, early
  for (const bool early : {true, false}) {
    ways[early] = record_range(state, state.ranges.front(), early);
    if (early && ways[early]->early() == 0) return {.why_not = "no kernel of it can"};
  }
  run();  // brings the inputs there
  const auto time = [&](bool early, int runs) {
    const std::unique_ptr<Timestamps> timestamps = backend_.timestamps();
    timestamps->record(stream_.get());
    for (int i = 0; i < runs; ++i) ways[early]->launch(stream_.get());
    timestamps->record(stream_.get());
    return static_cast<double>(timestamps->times()[1]) * 1e-3 / runs;
  };
  time(true, 1), time(false, 1);
  // The medians of so many samples, taken in turn, differ by less than half a percent where the ways are the same.
  constexpr double sample_us = 1500, budget_us = 300'000;
  constexpr int most_runs = 30, least_samples = 15, most_samples = 101;
  const double once = std::max(time(false, 2), 1.0);
  const int runs = std::clamp(static_cast<int>(sample_us / once), 1, most_runs);
  const int count = std::clamp(static_cast<int>(budget_us / (2 * runs * once)), least_samples, most_samples);
  std::array<std::vector<double>, 2> samples;
  for (int i = 0; i < count; ++i)
    for (const bool early : {i % 2 == 0, i % 2 != 0}) {
      check_stop();
      samples[early].push_back(time(early, runs));
    }
  return {median(samples[0]), median(samples[1]), {}};
}

std::vector<double> ExecutionImpl::time_lineups(std::span<const tune::Lineup> lineups,
                                                std::span<const std::vector<size_t>> of_problem, bool early) {
  if (!first_ || !has_to_wait().empty() || first_->ranges.size() != 1) fail("a run is not one recording");
  SegmentState& state = *first_;
  std::vector<plan::Step>& steps = state.segment.steps;
  std::vector<std::unique_ptr<Recording>> recordings;
  for (const tune::Lineup& lineup : lineups) {
    check_stop();
    for (size_t p = 0; p < of_problem.size(); ++p)
      for (const size_t at : of_problem[p]) steps[at].kernel = steps[at].finalists.at(lineup[p]).kernel;
    recordings.push_back(record_range(state, state.ranges.front(), early));
  }
  const auto time = [&](Recording& recording, int runs) {
    const std::unique_ptr<Timestamps> timestamps = backend_.timestamps();
    timestamps->record(stream_.get());
    for (int i = 0; i < runs; ++i) recording.launch(stream_.get());
    timestamps->record(stream_.get());
    return static_cast<double>(timestamps->times()[1]) * 1e-3 / runs;
  };
  // What the first launch loads is loaded; of so many short samples, taken in turn, the median is that of a quiet moment.
  double once = 1;
  for (const auto& r : recordings) once = std::max(1.0, time(*r, 1));
  const int runs = std::clamp(static_cast<int>(lineup_sample_us / once), 1, most_lineup_runs);
  std::vector<std::vector<double>> us(recordings.size());
  for (int i = 0; i < lineup_samples; ++i)
    for (size_t k = 0; k < recordings.size(); ++k) us[k].push_back(time(*recordings[k], runs));
  std::vector<double> medians;
  for (std::vector<double>& all : us) medians.push_back(median(all));
  return medians;
}

std::vector<PlanImpl::Prepared> ExecutionImpl::take_prepared() {
  wait_for_enqueued();
  backend_.wait(stream_.get());
  first_ = nullptr, recording_ = nullptr;
  segments_.clear();
  std::vector<PlanImpl::Prepared> all;
  for (auto& [binding, state] : bound_.take())
    if (binding.caches.empty())
      all.push_back(
          {binding.shapes, std::make_unique<plan::PlannedSegment>(std::move(static_cast<plan::PlannedSegment&>(*state)))});
  return all;
}

}  // namespace smelt::run
