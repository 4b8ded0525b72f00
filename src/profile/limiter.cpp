#include "profile/limiter.h"

#include <fmt/core.h>

#include "ops/core/facts.h"

namespace smelt::profile {
namespace {

constexpr double near_roof = 1.0 / 3;  // of the roof
constexpr double least_start_us =
    0.5;                      // assumed: a plan calls the kernel and reads the clock also where one thread starts no others
constexpr double starts = 8;  // that a step may take and still be one that is all starting

std::string percent(double part) { return fmt::format("{:.{}f}%", 100 * part, part < 0.1 && part > 0 ? 1 : 0); }

std::string because(const StepRow& row, double least_us, const Roof& roof) {
  const double memory = row.memory_us / least_us, compute = row.compute_us / least_us;
  switch (row.limiter) {
    case Limiter::compute:
      return fmt::format("{} of the arithmetic's roof; its bytes would take {} of the time", percent(compute), percent(memory));
    case Limiter::memory:
      if (memory < near_roof)
        return fmt::format("it only moves elements, at {} of the memory's roof: lines of memory are used in part",
                           percent(memory));
      return fmt::format("{} of the memory's roof; its arithmetic would take {} of the time", percent(memory), percent(compute));
    case Limiter::launch:
      return fmt::format("its work would take {:.2g} µs, starting a step takes {:.2g} µs", row.floor_us(),
                         std::max(roof.launch_us, least_start_us));
    case Limiter::latency:
      return fmt::format("{} of the memory's roof and {} of the arithmetic's: it waits, or its kernel is slow", percent(memory),
                         percent(compute));
    case Limiter::unknown: break;
  }
  return "";
}

}  // namespace

DType computes_in(const StepInfo& step) {
  // "conv:i8>i32:…" says it outright. Elsewhere the first float decides, be it an operand's ("Where:bool[8],f16[],f16[8]>f16[8]"); an
  // attribute's words ("axis=-1") are no types.
  const std::string_view problem = step.problem;
  for (size_t at = problem.find(':'); at != std::string_view::npos;) {
    const size_t begin = at + 1;
    at = problem.find_first_of(":,>[ (", begin);
    const auto type = parse_dtype(problem.substr(begin, at == std::string_view::npos ? at : at - begin));
    const bool outright = at != std::string_view::npos && problem[at] == '>' && begin == problem.find(':') + 1;
    if (type && (is_float(*type) || outright)) return *type;
  }
  for (const std::string& o : step.output_shapes)
    if (const auto type = parse_dtype(std::string_view(o).substr(0, o.find('['))); type && is_float(*type)) return *type;
  return DType::f32;
}

bool only_moves(const StepInfo& step) {
  if (step.flops > 0) return false;
  const size_t dot = step.op.rfind('.');
  const std::string_view op = std::string_view(step.op).substr(dot == std::string::npos ? 0 : dot + 1);
  const std::string_view domain = dot == std::string::npos ? std::string_view() : std::string_view(step.op).substr(0, dot);
  const ops::OpRow* row = ops::find_row(op, domain);
  if (!row) return step.tactic == "copy";
  return row->facts.elements != ops::Elements::computed || row->facts.reads_part || step.tactic == "copy" ||
         row->facts.shape == ops::OutShape::input;
}

void judge(StepRow& row, const Roof& roof) {
  if (roof.bytes_per_s <= 0 || row.us.median <= 0) return;
  const double peak = roof.peak(computes_in(row.step));
  row.memory_us = static_cast<double>(row.step.bytes) / roof.bytes_per_s * 1e6;
  row.compute_us = peak > 0 ? static_cast<double>(row.step.flops) / peak * 1e6 : 0;
  row.roof_share = row.floor_us() / row.us.median;
  row.at_stake_us = std::max(0.0, row.own_us() - row.floor_us());
  const double fastest = row.us.min > 0 ? row.us.min : row.us.median;
  const double least = row.alone_us > 0 ? std::min(fastest, row.alone_us) : fastest, share = row.floor_us() / least;
  const double launch = std::max(roof.launch_us, least_start_us);
  if (row.floor_us() < launch && share < 0.5 && least < starts * launch)
    row.limiter = Limiter::launch;
  else if (share >= near_roof)
    row.limiter = row.compute_us >= row.memory_us ? Limiter::compute : Limiter::memory;
  else
    row.limiter = only_moves(row.step) ? Limiter::memory : Limiter::latency;
  row.because = because(row, least, roof);
}

}  // namespace smelt::profile
