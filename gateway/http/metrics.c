#include "gateway/http/metrics.h"

struct metric metrics_http[METRIC_HTTP_COUNT] = {
#define COUNTED(constant, text, fixed, sort, meaning) \
    [constant] = {.name = (text), .help = (meaning), .labels = (fixed), .kind = (sort)},
#include "gateway/http/metrics.def"
#undef COUNTED
};

const struct metric_table metric_table_http = {metrics_http, METRIC_HTTP_COUNT};
