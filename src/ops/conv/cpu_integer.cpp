// What ConvInteger is offered on the processor.
#include "ops/conv/integer_form.h"
#include "ops/conv/offer.h"
#include "ops/core/quantized_program.h"

namespace smelt::ops::conv {

void offer_conv_integer_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<IntegerForm> f = integer_form(b);
  if (!f) {
    offer.refuse("cpu", f.refusal());
    return offer_integer_columns(b, machine, offer);
  }
  if (const auto why = rejects_sums(b.inputs[0].type, b.inputs[1].type, 1)) {  // sums wrap, as the operator's do
    offer.refuse("cpu", *why);
    return offer_integer_columns(b, machine, offer);
  }
  offer_integer_direct(b, *f, machine, offer);
  if (b.inputs[1].constant.valid() && (!b.has(3) || b.constant(3)))
    offer_integer_rows(b, *f, machine, offer);
  else
    offer_integer_columns(b, machine, offer);  // weights that are made in the run
}

}  // namespace smelt::ops::conv
