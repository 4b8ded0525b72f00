// A rewrite: match looks and cannot change; apply changes and cannot fail. Every place a rewrite looks at ends in the
// ledger, matched or with the reason why not.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/refusal.h"
#include "graph/graph.h"

namespace smelt::fuse {

/// A match is the change itself, worked out but not made: calling it applies it and returns the node that stands for the
/// pattern afterwards. It captures what match found; it does not look again and does not throw.
struct Match {
  std::vector<NodeId> nodes;            // what the pattern covers, in topological order
  std::function<NodeId(Graph&)> apply;  // empty: a decision that another stage carries out; nothing changes here
  std::string form = {};                // what of the pattern is there: "bias + gelu"; may be empty
};

/// Not a candidate at all (the node is not where this pattern starts): not recorded.
struct NotHere {};

using Outcome = std::variant<NotHere, Refusal, Match>;

struct Rewrite {
  std::string_view name;  // "conv_act", what --skip takes
  Outcome (*match)(const Graph&, NodeId);
  std::string_view what = {};  // in a few words: "activation and residual into a convolution"
  /// Called with the graph before match is asked about each of its nodes, and with null afterwards: for a rewrite that looks for
  /// other nodes by what they are. match does without. May be null.
  void (*sweep)(const Graph*) = nullptr;
  /// Only where no other rewrite finds anything: for one that would take away what others look for.
  bool at_rest = false;
  /// Also before the first round (TIDY in fuse/rewrites/pipeline.def).
  bool tidies = false;
};

struct Entry {
  std::string rewrite;
  std::vector<std::string> nodes;  // ONNX node names (sources) the pattern covers or looked at
  bool matched = false;
  std::string reason;   // reason code, "" when matched
  std::string blocker;  // name of the blocking node
  std::string detail;
  std::string form;     // of a match: Match::form
  double saved_us = 0;  // of a match, estimated (estimate.h); 0: nothing, or not estimated
  double cost_us = 0;   // of a rejection, estimated: what keeping the nodes apart costs
};
using Ledger = std::vector<Entry>;

/// How a Concat over channels in front of convolutions avoids its copy: by its inputs' producers writing into its output, or
/// by convolutions that read their inputs in segments. Where the first choice is rejected, the other is tried.
enum class ConcatForm : uint8_t { in_place, segments };

/// What estimates of a machine go by (`smelt devices --measure`). Nothing is estimated with 0.
struct Rates {
  double bytes_per_s = 0;  // memory traffic, read and write together
  double launch_us = 0;    // starting one kernel
};

/// Which 16-bit floats a machine's convolutions are slower in than in f32.
enum class WidenedFloats : uint8_t { none, f16, f16_and_bf16 };

struct Options {
  std::vector<std::string> skip;  // rewrites left out
  bool verify_each = true;        // run the verifier after each rewrite
  ConcatForm concat = ConcatForm::in_place;
  // A GPU's int8 kernels: products by computed scales, zero points or images' weights have none, and stay in parts; transposed matrices are
  // multiplied as they lie, and softmax works on 8 bits.
  bool int8_by_constants = false;
  bool taken_apart = false;      // Loops of known turns become their turns, Einsums of groups of axes products
  bool blocks_in_parts = false;  // products by weights in blocks have no kernel, and stay in parts
  bool bare_f64_conv = false;    // convolutions of f64 have no kernel with what follows, which stays apart
  bool causal_apart = false;     // ONNX's causal Attention over lengths that only a run knows has a kernel, and stays
  WidenedFloats widened = WidenedFloats::none;
  Rates rates = {};
};

/// The pipeline's rewrites in order (fuse/rewrites/pipeline.def).
std::span<const Rewrite> pipeline();
/// Runs the pipeline to its fixed point, in the bodies of control flow too. The ledger is in pipeline order, then in the
/// graph's; it has one entry for each (rewrite, place): the match, or the last reason why not. A node that a rewrite made is to
/// blame only where no node of the model was. Throws Error (usage) when options.skip names no rewrite, and Error when a rewrite
/// leaves an invalid graph or the pipeline never comes to rest.
Ledger run(Graph& g, const Options& options = {});
/// The same with another list of rewrites.
Ledger run(Graph& g, std::span<const Rewrite> rewrites, const Options& options = {});

}  // namespace smelt::fuse
