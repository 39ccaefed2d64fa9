#include "documents/format/detection_rule.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "documents/format/document_priv.h"

#define DAY_MS ((int64_t)86400000)

static const struct {
    const char *name;
    int64_t threshold, window_s, severity;
    bool is_on;
} detectors[DETECTOR_COUNT] = {
#define X(constant, name, threshold, window_s, severity, is_on) [constant] = {name, threshold, window_s, severity, is_on},
    DETECTORS(X)
#undef X
};

const char *detector_name(enum detector detector)
{
    return detectors[detector].name;
}

bool detector_find(const char *name, enum detector *detector_out)
{
    for (enum detector detector = 0; detector < DETECTOR_COUNT; detector++)
        if (strcmp(detectors[detector].name, name) == 0) {
            *detector_out = detector;
            return true;
        }
    return false;
}

struct detection_rule detection_rule_default(enum detector detector)
{
    struct detection_rule rule = {.detector = detector,
                                  .threshold = detectors[detector].threshold,
                                  .window_s = detectors[detector].window_s,
                                  .severity = detectors[detector].severity,
                                  .is_off = !detectors[detector].is_on};

    (void)snprintf(rule.name, sizeof rule.name, "%s", detectors[detector].name);
    return rule;
}

/* The members of a body, as json_unpack_ex() returns them. */
struct body {
    const char *detector;
    json_int_t threshold, window_s, severity;
    const json_t *off;
};

static struct result unpack(const struct document *document, struct body *body, struct error *err)
{
    return document_unpack(json_object_get(document->json, "body"), "the body of a detection rule", err,
                           "{s:s, s?:I, s?:I, s?:I, s?:o}", "detector", &body->detector, "threshold", &body->threshold, "window",
                           &body->window_s, "severity", &body->severity, "off", &body->off);
}

static struct result check_numbers(const struct body *body, const struct detection_rule *rule, struct error *err)
{
    const int most = rule->detector == DETECTOR_BYTES ? DETECTION_MIB_MAX : DETECTION_THRESHOLD_MAX;
    const bool has_window = rule->window_s > 0;

    if (body->threshold < 1 || body->threshold > most) return failure(err, ERROR_INVALID, "threshold: 1 to %d", most);
    if (has_window && (body->window_s < 1 || body->window_s > DETECTION_WINDOW_MAX_S))
        return failure(err, ERROR_INVALID, "window: 1 to %d seconds", DETECTION_WINDOW_MAX_S);
    if (!has_window && body->window_s != 0) return failure(err, ERROR_INVALID, "window: this detector has none");
    if (body->severity < 1 || body->severity > DETECTION_SEVERITY_MAX)
        return failure(err, ERROR_INVALID, "severity: 1 to %d", DETECTION_SEVERITY_MAX);
    if (body->off != NULL && !json_is_boolean(body->off)) return failure(err, ERROR_INVALID, "off: true or false");
    return SUCCESS;
}

static struct result check_head(const struct document *document, struct error *err)
{
    if (strlen(document->name) > DETECTION_NAME_MAX)
        return failure(err, ERROR_INVALID, "the name of a detection rule has at most %d characters", DETECTION_NAME_MAX);
    if (document->scope[0] != '\0') return failure(err, ERROR_INVALID, "a detection rule is of the registry: its scope is \"\"");
    if (document->expires_ms == 0 || document->expires_ms - document->effective_ms > DETECTION_DAYS_MAX * DAY_MS)
        return failure(err, ERROR_INVALID, "a detection rule expires, within %d days", DETECTION_DAYS_MAX);
    return SUCCESS;
}

struct result detection_rule_read(const struct document *document, struct detection_rule *rule_out, struct error *err)
{
    struct body body = {.threshold = -1, .window_s = -1, .severity = -1};
    enum detector detector, named;

    TRY(check_head(document, err));
    TRY(unpack(document, &body, err));
    if (!detector_find(body.detector, &detector))
        return failure(err, ERROR_INVALID, "detector: there is no \"%.40s\"", body.detector);
    if (detector_find(document->name, &named) && named != detector)
        return failure(err, ERROR_INVALID,
                       "the name of another detector: a rule of this name takes the place of its default rule");
    struct detection_rule rule = detection_rule_default(detector);
    if (body.threshold == -1) body.threshold = rule.threshold;
    if (body.window_s == -1) body.window_s = rule.window_s;
    if (body.severity == -1) body.severity = rule.severity;
    TRY(check_numbers(&body, &rule, err));
    (void)snprintf(rule.name, sizeof rule.name, "%.63s", document->name);
    rule.threshold = body.threshold;
    rule.window_s = body.window_s;
    rule.severity = body.severity;
    rule.is_off = json_is_true(body.off);
    *rule_out = rule;
    return SUCCESS;
}

struct result document_check_detection_rule(const struct document *document, const struct document_trust *trust,
                                            struct error *err)
{
    struct detection_rule rule;

    if (document->is_withdrawn) {
        TRY(check_head(document, err));
        TRY(document_check_empty(document, "a detection rule", err));
    } else {
        TRY(detection_rule_read(document, &rule, err));
    }
    return document_check_persons(document, trust, "a detection rule", err);
}
