#include "ops/cpu/onednn/offer.h"

#include <fmt/core.h>

namespace smelt::ops::onednn {

void offer_found(Offer& offer, bool with_program, const std::function<bool()>& add) {
  if (!offer.asks_for("onednn")) return;
  if (offer.wanted.only && offer.wanted.only->config.ends_with(post_ops_suffix) != with_program) return;
  const char* with = with_program ? " with the program as post-operations" : "";
  try {
    if (!add()) offer.refuse("onednn", Reason::unsupported, "it has only its reference for this problem{}", with);
  } catch (const dnnl::error& e) {
    offer.refuse("onednn", Reason::failed, "oneDNN: {}{}", e.what(), with);
  }
}

void offer_exact(Offer& offer, const WeightRange& range, const std::function<ByteProducts()>& ask) {
  if (!offer.asks_for("onednn")) return;
  if (const auto why = rejects_weights(range)) return offer.refuse("onednn", *why);
  offer_found(offer, false, [&] {
    const ByteProducts p = ask();
    for (const Implementation& i : p.found) {
      if (const auto why = rejects_sums(i.name, p.is_signed, range))
        offer.refuse("onednn", *why);
      else
        offer.candidates.push_back({"onednn", i.name, p.estimate_us(i), [i, prepare = p.prepare] { return prepare(i); }});
    }
    return !p.found.empty();
  });
}

}  // namespace smelt::ops::onednn
