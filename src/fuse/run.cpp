#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "base/error.h"
#include "base/stop.h"
#include "fuse/match/compose.h"
#include "fuse/match/estimate.h"
#include "fuse/match/extents.h"
#include "fuse/rewriter.h"
#include "fuse/rewrites/canonicalise/folding.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

// Real models settle after 3 or 4 rounds; two rewrites that undo each other never do.
constexpr int max_rounds = 100;

/// Entries by rewrite and by the node at which the rewrite looked.
class Book {
 public:
  /// `decided`: nothing changed, so that the next sweep comes to the same place again, and may decide otherwise.
  void matched(size_t rewrite, NodeId at, Entry e, bool decided) {
    e.matched = true;
    Page& page = pages_[{rewrite, index(at)}];
    if (!page.final) page.entries.clear();
    page.final = !decided;
    page.entries.push_back(std::move(e));
  }

  /// `by_fused`: a node that a rewrite made stands in the way. It came to stand there after an earlier look had found a reason
  /// in the model itself, and that one stays.
  void rejected(size_t rewrite, NodeId at, Entry e, bool by_fused) {
    Page& page = pages_[{rewrite, index(at)}];
    if (page.final || (by_fused && !page.entries.empty() && !page.entries.back().matched)) return;
    page.entries = {std::move(e)};
  }

  /// In pipeline order, then by the place's position in the graph.
  void close(const Graph& g, Ledger& ledger) {
    std::vector<std::pair<std::tuple<size_t, int64_t, int32_t>, std::vector<Entry>*>> sorted;
    for (auto& [key, page] : pages_)
      // A decision about a node that another rewrite has taken since is void.
      if (page.final || !page.entries.back().matched || g.node(NodeId{key.second}).alive)
        sorted.push_back({{key.first, g.node(NodeId{key.second}).order, key.second}, &page.entries});
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [key, entries] : sorted) std::move(entries->begin(), entries->end(), std::back_inserter(ledger));
  }

 private:
  struct Page {
    std::vector<Entry> entries;
    bool final = false;  // a match was applied: what is found here afterwards cannot undo it
  };
  std::map<std::pair<size_t, int32_t>, Page> pages_;
};

/// The ONNX nodes that these nodes stand for; a node without sources gives its own name.
std::vector<std::string> source_names(const Graph& g, std::span<const NodeId> nodes) {
  if (nodes.size() == 1 && g.node(nodes[0]).sources.size() < 2) {
    const Node& n = g.node(nodes[0]);
    return {n.sources.empty() ? n.name : g.sources()[static_cast<size_t>(n.sources[0])].name};
  }
  std::vector<std::string> names;
  std::unordered_set<std::string_view> seen;
  const auto add = [&](const std::string& s) {
    if (seen.insert(s).second) names.push_back(s);
  };
  for (NodeId n : nodes) {
    for (int32_t s : g.node(n).sources) add(g.sources()[static_cast<size_t>(s)].name);
    if (g.node(n).sources.empty()) add(g.node(n).name);
  }
  return names;
}

/// What a rewrite files of a graph, for one sweep.
class Filed {
 public:
  Filed(const Rewrite& rewrite, const Graph& g) : sweep_(rewrite.sweep) {
    if (sweep_) sweep_(&g);
  }
  ~Filed() {
    if (sweep_) sweep_(nullptr);
  }
  Filed(const Filed&) = delete;

 private:
  void (*sweep_)(const Graph*);
};

class Runner {
 public:
  Runner(Graph& g, std::span<const Rewrite> rewrites, const Options& options) : g_(g), rewrites_(rewrites), options_(options) {}

  void run(Ledger& ledger) {
    refine_shapes(g_);
    rounds([this] { return round_changes([](const Rewrite& r) { return r.tidies; }); });
    rounds([this] {
      return round_changes([](const Rewrite& r) { return !r.at_rest; }) ||
             round_changes([](const Rewrite& r) { return r.at_rest; });
    });
    book_.close(g_, ledger);
  }

 private:
  bool skipped(std::string_view name) const {
    return std::find(options_.skip.begin(), options_.skip.end(), name) != options_.skip.end();
  }

  template <typename Round> void rounds(Round changes) {
    for (int round = 0; changes(); ++round)
      if (round == max_rounds)
        fail("rewriting graph '{}' does not end: '{}' still matches after {} rounds", g_.name, last_, max_rounds);
  }

  /// Of the rewrites that are meant.
  bool round_changes(bool (*is_meant)(const Rewrite&)) {
    bool changed = false;
    for (size_t i = 0; i < rewrites_.size(); ++i) {
      if (!is_meant(rewrites_[i]) || skipped(rewrites_[i].name)) continue;
      int sweeps = 0;
      while (sweep(i)) {
        changed = true;
        last_ = rewrites_[i].name;
        if (++sweeps == 10000) fail("rewrite '{}' does not end on graph '{}'", last_, g_.name);
      }
    }
    return changed;
  }

  /// Looks at every node once. A node made on the way is looked at by the next sweep.
  bool sweep(size_t i) {
    const Rewrite& rewrite = rewrites_[i];
    bool changed = false;
    const Filed filed(rewrite, g_);
    for (NodeId n : g_.topological()) {
      if (!g_.node(n).alive) continue;
      check_stop();
      const Outcome outcome = match(rewrite, n);
      if (const auto* r = std::get_if<Refusal>(&outcome))
        reject(i, n, *r);
      else if (const auto* m = std::get_if<Match>(&outcome))
        changed = take(i, n, *m) || changed;
    }
    if (changed) refine_shapes(g_);
    if (changed && options_.verify_each) check(rewrite);
    return changed;
  }

  void reject(size_t i, NodeId n, const Refusal& r) {
    book_.rejected(i, n,
                   {.rewrite = std::string(rewrites_[i].name),
                    .nodes = source_names(g_, {&n, 1}),
                    .reason = std::string(name(r.reason)),
                    .blocker = r.blocker == NodeId::none ? "" : g_.node(r.blocker).name,
                    .detail = r.text,
                    .cost_us = cost(n, r)},
                   r.blocker != NodeId::none && g_.node(r.blocker).domain == smelt_domain);
  }

  /// Estimated: what keeping n apart costs. Nothing where what reads it is not what such a rewrite takes in, and for bodies, which run
  /// wherever they stand.
  double cost(NodeId n, const Refusal& r) const {
    const bool other_reader = r.reason == Reason::wrong_reader && r.blocker != NodeId::none && !is_pointwise(g_, r.blocker);
    const bool has_body =
        std::ranges::any_of(g_.node(n).attrs, [](const auto& a) { return std::holds_alternative<GraphPtr>(a.second); });
    return options_.rates.bytes_per_s > 0 && !other_reader && !has_body ? cost_us(g_, n, options_.rates) : 0;
  }

  /// Applies a match and enters it; whether the graph changed.
  bool take(size_t i, NodeId n, const Match& m) {
    Entry e{.rewrite = std::string(rewrites_[i].name), .nodes = source_names(g_, m.nodes), .form = m.form};
    const bool estimated = options_.rates.bytes_per_s > 0;
    if (!m.apply) {
      // A decision: the last node's work is what is not done.
      if (const auto w = estimated ? work(g_, m.nodes.back()) : std::nullopt) e.saved_us = time_us(*w, options_.rates);
      book_.matched(i, n, std::move(e), true);
      return false;
    }
    std::optional<Saving> saving;
    if (estimated) saving.emplace(g_, m.nodes);
    m.apply(g_);
    if (saving) e.saved_us = saving->saved_us(g_, options_.rates);
    book_.matched(i, n, std::move(e), false);
    return true;
  }

  /// A node around here may not fit its inputs (an axis beyond a rank that became known only now): it stays, and running it says
  /// so.
  Outcome match(const Rewrite& rewrite, NodeId n) const {
    try {
      return rewrite.match(g_, n);
    } catch (const Error& e) {
      return refuse(Reason::unsupported, n, "{}", e.what());
    }
  }

  void check(const Rewrite& rewrite) const {
    try {
      verify(g_);
    } catch (const Error& e) {
      throw e.at(fmt::format("after rewrite '{}'", rewrite.name));
    }
  }

  Graph& g_;
  std::span<const Rewrite> rewrites_;
  const Options& options_;
  Book book_;
  std::string_view last_;
};

void run_with_bodies(Graph& g, std::span<const Rewrite> rewrites, const Options& options, Ledger& ledger) {
  Runner(g, rewrites, options).run(ledger);
  for (NodeId n : g.topological())
    for (const auto& [key, attribute] : g.node(n).attrs)
      if (const auto* body = std::get_if<GraphPtr>(&attribute); body && *body) run_with_bodies(**body, rewrites, options, ledger);
}

void check_names(std::span<const Rewrite> rewrites, const std::vector<std::string>& wanted) {
  for (const std::string& w : wanted) {
    if (std::any_of(rewrites.begin(), rewrites.end(), [&](const Rewrite& r) { return r.name == w; })) continue;
    std::string names;
    for (const Rewrite& r : rewrites) names += (names.empty() ? "" : ", ") + std::string(r.name);
    throw Error(fmt::format("no rewrite is named '{}'", w), "The rewrites are: " + names, ExitCode::usage);
  }
}

}  // namespace

std::string text_of(const Options& o) {
  // All members by name, so that one more does not compile. What verifies and what estimates changes no graph.
  const auto& [left_out, verify_each, concat, int8_by_constants, taken_apart, blocks_in_parts, bare_f64_conv, causal_apart,
               widened, rates] = o;
  static_cast<void>(verify_each), static_cast<void>(rates);
  const std::set<std::string> names(left_out.begin(), left_out.end());
  std::string skipped;
  for (const std::string& name : names) skipped += " -" + name;
  return fmt::format("sources {}, {} {} {} {} {} {} {}{}", sources(), static_cast<int>(concat), int{int8_by_constants},
                     int{taken_apart}, int{blocks_in_parts}, int{bare_f64_conv}, int{causal_apart}, static_cast<int>(widened),
                     skipped);
}

Ledger run(Graph& g, const Options& options) {
  std::vector<Rewrite> list(pipeline().begin(), pipeline().end());
  const auto replace = [&](auto match, auto by) {
    for (Rewrite& r : list)
      if (r.match == match) r.match = by;
  };
  if (options.concat == ConcatForm::segments) replace(concat_conv, concat_conv_everywhere);
  if (options.int8_by_constants) {
    replace(quantized_conv, quantized_conv_by_constants);
    replace(quantized_matmul, quantized_matmul_by_constants);
    replace(qlinear_operator, qlinear_operator_by_constants);
    replace(qlinear_parts, qlinear_parts_but_softmax);
    replace(dynamic_product, dynamic_convolution);
  }
  const auto nowhere = +[](const Graph&, NodeId) -> Outcome { return NotHere{}; };
  if (!options.int8_by_constants)
    for (const auto match : {quantized_rows, quantized_softmax}) replace(match, nowhere);
  if (!options.taken_apart)
    for (const auto match : {unroll_loop, einsum_groups}) replace(match, nowhere);
  if (options.widened == WidenedFloats::none) replace(widen_convolutions, widen_convolutions_nowhere);
  if (options.widened == WidenedFloats::f16) replace(widen_convolutions, widen_convolutions_of_f16);
  if (options.blocks_in_parts) replace(block_matmul, block_matmul_nowhere);
  if (options.bare_f64_conv) replace(conv_epilogue, conv_epilogue_but_f64);
  if (options.causal_apart) replace(attention_operator, attention_operator_of_known_lengths);
  return run(g, list, options);
}

Ledger run(Graph& g, std::span<const Rewrite> rewrites, const Options& options) {
  check_names(rewrites, options.skip);
  const FoldingScope folding;  // one for the graph and its bodies
  Ledger ledger;
  run_with_bodies(g, rewrites, options, ledger);
  return ledger;
}

}  // namespace smelt::fuse
