// What the tests of the tuner decide on: a problem with a real offer, and offers and timings made here.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/machine.h"
#include "tune/tuner.h"

namespace smelt::tune::test {

/// A Relu over `count` numbers, which has a real offer for the tuner to measure.
struct Problem {
  Node node;
  ops::BoundNode bound;
  explicit Problem(int64_t count = 4096) {
    node.op = "Relu";
    node.name = "relu";
    node.inputs = {ValueId{0}};
    node.outputs = {ValueId{1}};
    bound.node = &node;
    bound.inputs = {{DType::f32, {count}}};
    bound.outputs = {{DType::f32, {count}}};
  }
};

inline ops::Offer offer_of(std::vector<ops::Candidate> candidates) {
  ops::Offer o;
  o.problem = "relu:test";
  o.candidates = std::move(candidates);
  o.refuse("avx512", Reason::wrong_machine, "this processor has avx2");
  return o;
}

/// Nothing is measured again for being measured beside other work: the cores are never free.
inline Tuner tuner(int level, const std::string& filter = "", std::shared_ptr<Cache> cache = Cache::in_memory()) {
  return Tuner(ops::this_machine(1), level, TacticFilter::parse(filter), std::move(cache), {},
               {.cores_are_free = [] { return false; }});
}

inline std::string reason(const Choice& c, const std::string& tactic) {
  for (const auto& o : c.others) {
    if (o.tactic == tactic) return o.reason;
  }
  return "not listed";
}

inline CacheEntry timings(const Tuner& t, double first_us, double second_us, int level = 2) {
  return {{"relu:test", device_text(t.machine()), t.machine().versions},
          level,
          {{"a", "", first_us, first_us, first_us, first_us, first_us, 9},
           {"b", "", second_us, second_us, second_us, second_us, second_us, 9}}};
}

}  // namespace smelt::tune::test
