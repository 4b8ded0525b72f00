#pragma once

#include "ops/scan/scan.h"

namespace smelt::ops::scan {

Case conv(Choices& c);
Case transposed_conv(Choices& c);
Case byte_conv(Choices& c);
Case integer_conv(Choices& c);

}  // namespace smelt::ops::scan
