#include "plan/known_choices.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "ops/core/machine.h"

namespace smelt::plan {
namespace {

/// The step runs with that candidate.
void take(PendingStep& p, const ops::Offer& offer, tune::Choice choice) {
  const ops::Candidate& chosen = offer.candidates[choice.candidate];
  Step& step = *p.step;
  step.kernel = chosen.prepare();
  step.problem = offer.problem;
  step.tactic = chosen.tactic;
  step.config = chosen.config;
  step.choice = std::make_shared<const tune::Choice>(std::move(choice));
}

/// Whether a kernel that is ready at once is to run: code for this one shape would take longer to make than ten runs win by it
/// (bench/results/cpu-tiles-2026-11-26.txt; with the tiles of AVX-512 cpu-new-shapes-2026-11-29.txt).
bool is_short(const ops::Candidate& c) {
  constexpr double most_us = 1500;
  return c.tactic != "reference" && c.estimate_us <= most_us;
}

/// The kernels that are ready at once; nothing where none of them is short.
std::optional<ops::Offer> ready_offer(const ops::BoundNode& node, const tune::Tuner& tuner) {
  ops::Offer offer = ops::offer(node, tuner.machine(), {.at_once = true});
  if (std::ranges::none_of(offer.candidates, [&](const auto& c) { return is_short(c) && tuner.allows(c.tactic); }))
    return std::nullopt;
  return offer;
}

/// Gives the step a kernel that is ready at once where that is short. False where it is not.
bool take_ready(PendingStep& p, tune::Tuner& tuner) {
  const auto offer = ready_offer(p.node, tuner);
  if (!offer) return false;
  auto choice = tuner.choose(p.node, *offer, {}, false);
  if (offer->candidates[choice.candidate].tactic == "reference") return false;
  take(p, *offer, std::move(choice));
  return true;
}

/// Gives the step the candidate that was chosen for similar extents. False where it is not offered, or `only_short` and it is not.
bool take_like(PendingStep& p, tune::Tuner& tuner, const ops::ChosenTactic& like, bool only_short) {
  const ops::Offer offer = ops::offer(p.node, tuner.machine(), {&like});
  auto choice = tuner.take(offer, like);
  if (!choice || (only_short && !is_short(offer.candidates[choice->candidate]))) return false;
  take(p, offer, *std::move(choice));
  return true;
}

/// What the plan names for the step's problem.
std::optional<ops::ChosenTactic> named_choice(const PendingStep& p, tune::Tuner& tuner) {
  if (!tuner.has_pinned()) return std::nullopt;
  static const ops::ChosenTactic none;  // for the problem's name alone
  return tuner.pinned_for(ops::offer(p.node, tuner.machine(), {&none}).problem);
}

/// Gives the step a kernel that is ready at once, as for similar extents where that was chosen so. False where there is none, or
/// where the choice for similar extents is better founded.
bool take_at_once(PendingStep& p, tune::Tuner& tuner, const std::optional<SimilarChoice>& nearest) {
  if (nearest && (nearest->same_extents || nearest->by == ChosenBy::measurement)) return false;
  const bool was_ready = nearest && nearest->by == ChosenBy::readiness;
  if (was_ready && take_like(p, tuner, nearest->chosen, true)) return true;
  return (!nearest || was_ready || ops::generates_code(nearest->chosen.tactic)) && take_ready(p, tuner);
}

/// Gives the step a kernel without a search: what the plan names for its problem, or, where `similar` is given, one that is ready at
/// once or the choice for similar extents. False where there is none that runs it.
bool take_known(PendingStep& p, tune::Tuner& tuner, SimilarChoices* similar) {
  try {
    std::optional<ops::ChosenTactic> like = named_choice(p, tuner);
    if (!like && similar) {
      const auto nearest = similar->nearest(p.form);
      if (take_at_once(p, tuner, nearest)) {
        similar->keep(std::move(p.form), {p.step->tactic, p.step->config}, ChosenBy::readiness);
        return true;
      }
      if (nearest && (nearest->same_extents || nearest->by != ChosenBy::readiness)) like = nearest->chosen;
    }
    return like && take_like(p, tuner, *like, false);
  } catch (const Error&) {  // the search says why
    return false;
  }
}

}  // namespace

void take_known(std::vector<PendingStep>& pending, tune::Tuner& tuner, SimilarChoices& similar, int threads, bool may_measure) {
  std::vector<char> taken(pending.size());
  std::vector<std::exception_ptr> failed(pending.size());
  by_counted_threads(threads, pending.size(), [&](size_t i) {
    try {
      taken[i] = take_known(pending[i], tuner, may_measure ? nullptr : &similar) ? 1 : 0;
    } catch (...) {
      failed[i] = std::current_exception();
    }
  });
  std::vector<PendingStep> left;
  for (size_t i = 0; i < pending.size(); ++i) {
    if (failed[i]) std::rethrow_exception(failed[i]);
    const Step& step = *pending[i].step;
    if (!taken[i])
      left.push_back(std::move(pending[i]));
    else if (step.choice->pinned)
      similar.keep(std::move(pending[i].form), {step.tactic, step.config}, ChosenBy::measurement);
  }
  pending = std::move(left);
}

ops::Offer offer_unmeasured(const ops::BoundNode& node, const tune::Tuner& tuner) {
  auto ready = ready_offer(node, tuner);
  return ready ? *std::move(ready) : ops::offer(node, tuner.machine());
}

}  // namespace smelt::plan
