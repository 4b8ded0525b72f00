#include "fuse/spelled_out.h"

#include <algorithm>

namespace smelt::fuse {
namespace {

std::vector<Rewrite> recognising() {
  constexpr std::string_view names[] = {"recognise_gelu", "recognise_hard_swish", "recognise_silu", "recognise_rms_norm",
                                        "recognise_layer_norm"};
  std::vector<Rewrite> list;
  for (const Rewrite& r : pipeline())
    if (r.tidies || std::ranges::find(names, r.name) != std::end(names)) list.push_back(r);
  return list;
}

}  // namespace

Ledger recognise_spelled_out(Graph& g, Options options) {
  std::vector<Rewrite> list = recognising();
  std::erase_if(list, [&](const Rewrite& r) { return std::ranges::find(options.skip, r.name) != options.skip.end(); });
  options.skip.clear();  // names of others
  Ledger ledger = fuse::run(g, list, options);
  std::erase_if(ledger, [](const Entry& e) { return !e.matched || !e.rewrite.starts_with("recognise_"); });
  return ledger;
}

}  // namespace smelt::fuse
