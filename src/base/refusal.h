// Why something is not done: a rewrite leaves a place of the graph as it is, a tactic cannot run a problem. Both say so with the
// same value, which the ledger, `explain`, `explain --kernels` and --json print.
//
//   std::optional<Refusal> rejects(x)   a check: why x is not taken; nothing where it is
//   Result<Problem> problem_of(x)       what x becomes, or why it becomes nothing
//
//   if (rank != 4) return refuse(Reason::wrong_rank, "rank {}, expected 4", rank);
//   const Result<Problem> p = problem_of(x);
//   if (!p) return p.refusal();
#pragma once

#include <fmt/core.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace smelt {

enum class NodeId : int32_t;  // graph/graph.h

/// Reason codes are part of the interface: tests and --json name them.
// clang-format off
#define SMELT_REASONS(X)                                                                                      \
  /* of rewrites and tactics */                                                                               \
  X(not_constant) X(wrong_value) X(wrong_type) X(wrong_rank) X(wrong_shape) X(unknown_shape)                  \
  X(wrong_attribute) X(wrong_axis) X(missing_input) X(too_large) X(not_profitable) X(unsupported)             \
  /* of rewrites: what surrounds the place */                                                                 \
  X(wrong_producer) X(wrong_reader) X(extra_reader) X(graph_output) X(in_subgraph)                            \
  /* of tactics: how tensors lie in memory, what this machine lacks, sums that may overflow, a library's error */ \
  X(wrong_layout) X(wrong_machine) X(not_exact) X(failed)
// clang-format on
enum class Reason : uint8_t {
#define X(id) id,
  SMELT_REASONS(X)
#undef X
};
std::string_view name(Reason r);

struct Refusal {
  Reason reason;
  std::string text;    // what was found and what is required, in numbers: "K = 4093 must be a multiple of 8 (16-byte loads)"
  NodeId blocker{-1};  // of a rewrite: the node that stood in the way; none where no node did

  /// The same with "where: " in front, for callers that know more about the place: the algorithm of a tactic that has several.
  Refusal at(std::string_view where) const { return {reason, fmt::format("{}: {}", where, text), blocker}; }
};

template <class... A> Refusal refuse(Reason reason, fmt::format_string<A...> f, A&&... a) {
  return {reason, fmt::format(f, std::forward<A>(a)...)};
}
template <class... A> Refusal refuse(Reason reason, NodeId blocker, fmt::format_string<A...> f, A&&... a) {
  return {reason, fmt::format(f, std::forward<A>(a)...), blocker};
}

/// A value, or why there is none.
template <class T> class [[nodiscard]] Result {
 public:
  template <class U = T>
  requires(std::convertible_to<U, T> && !std::same_as<std::remove_cvref_t<U>, Result> &&
           !std::same_as<std::remove_cvref_t<U>, Refusal>) Result(U&& value)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  Result(Refusal why) : state_(std::in_place_index<1>, std::move(why)) {}

  /// Whether there is a value.
  explicit operator bool() const { return state_.index() == 0; }
  /// The value, which must be there.
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }
  /// Why there is no value; there must be none.
  const Refusal& refusal() const { return std::get<1>(state_); }

 private:
  std::variant<T, Refusal> state_;
};

}  // namespace smelt
