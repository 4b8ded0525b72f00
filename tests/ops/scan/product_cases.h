#pragma once

#include "ops/scan/scan.h"

namespace smelt::ops::scan {

Case product(Choices& c);
Case byte_product(Choices& c);
Case scaled_product(Choices& c);
Case attention(Choices& c);

}  // namespace smelt::ops::scan
