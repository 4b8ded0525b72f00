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

bool keep_on_amx(std::vector<Implementation>& found) {
  std::erase_if(found, [](const Implementation& i) { return !names(i.name, "amx"); });
  return !found.empty();
}

void leave_out_wrong(std::vector<Implementation>& found, std::span<const int64_t> windows, std::span<const int64_t> strides,
                     Offer& offer) {
  constexpr int64_t widest = 3;
  bool apart = false, divided = false;
  for (size_t d = 0; d < strides.size(); ++d) {
    apart |= strides[d] > windows[d];
    divided |= strides[d] > widest || (strides[d] > 1 && windows[d] % strides[d] == 0);
  }
  std::erase_if(found, [&](const Implementation& i) {
    if (apart && i.name.starts_with("brgconv:")) {
      offer.refuse("onednn", Reason::not_exact,
                   "{} may read and write beside its copy of the image where a stride is above its window", i.name);
      return true;
    }
    if (!divided || !names(i.name, "amx")) return false;
    offer.refuse("onednn", Reason::not_exact, "{} may give wrong sums where a stride divides its window or is above {}", i.name,
                 widest);
    return true;
  });
}

}  // namespace smelt::ops::onednn
