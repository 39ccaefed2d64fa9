/* Detection rules of strangers: each that is read is inside its bounds, and takes the place of no other detector. */
#include <assert.h>
#include <string.h>

#include "documents/format/detection_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(document) *document = NULL;
    struct detection_rule rule;
    enum detector named;
    struct error err = {0};

    if (!document_read_payload(DOCUMENT_DETECTION_RULE, (struct bytes){data, size}, &document, &err).ok) return 0;
    if (document->is_withdrawn || !detection_rule_read(document, &rule, &err).ok) return 0;
    assert(rule.detector < DETECTOR_COUNT && rule.threshold >= 1 && rule.threshold <= DETECTION_THRESHOLD_MAX);
    assert(rule.window_s >= 0 && rule.window_s <= DETECTION_WINDOW_MAX_S && rule.severity >= 1 && rule.severity <= 5);
    assert(!detector_find(rule.name, &named) || named == rule.detector);
    assert(document->scope[0] == '\0' && document->expires_ms > 0);
    return 0;
}
