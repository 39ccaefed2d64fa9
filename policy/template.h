/*
 * policy/template.h -- templates of policies, one for each regime (policy/templates), and a set made of them without writing JSON.
 *
 * A template has its sources, with the day on which each was read, and what nobody has verified. It is evidence for a review, not legal
 * advice, and says so in the policy that is made of it.
 */
#pragma once

#include "base/json.h"

#define TEMPLATE_BYTES_MAX    (64 * 1024) /* of a template; the largest has 7 KiB */
#define TEMPLATE_NETWORKS_MAX 64          /* of one call; a set may have more */
#define TEMPLATE_OFFICERS_MAX 16          /* persons that are told of exceptions */
#define TEMPLATE_ID_SIZE      65          /* of a policy, and '\0' */

/** The regime of the template with this number; NULL after the last. In the order of the alphabet. */
const char *policy_template_regime(size_t index);
/** The whole template: "regime", "title", "notice", "sources", "unverified", "groups", "policy". ERROR_NOT_FOUND. */
RESULT policy_template_read(const char *regime, json_t **template_out, struct error *err);

/** What a person answers. Borrowed. */
struct template_answers {
    const char *regime;   /* "adgm" */
    const char *place;    /* an organisation or a project: "clinic", "clinic/imaging" */
    const char *region;   /* one of the set: "local/main"; or a new one: "onprem/adgm-1=AE/AZ,ADGM" */
    size_t network_count; /* clients in these networks are where the region is */
    const char *networks[TEMPLATE_NETWORKS_MAX];
    size_t officer_count; /* whom an exception tells; none: whom the template names */
    const char *officers[TEMPLATE_OFFICERS_MAX];
    int64_t now_ms; /* the policy is in force from the beginning of this day, and due for review half a year later */
};

/**
 * A set with the template's policy for that place: `before` (the document of the set in force; NULL: there is none) with what was added to
 * it. Nothing that is there is changed or left out. Its epoch is the next one. The set compiles, and its places and regimes are known.
 * ERROR_INVALID says which answer is wrong; ERROR_CONFLICT: the set has a policy of this name already. Appends the payload to sign.
 */
RESULT policy_template_set(const struct template_answers *answers, const json_t *before, struct buffer *payload,
                           struct error *err);
/** The id of the policy that these answers make: "ae-health-clinic.imaging". */
RESULT policy_template_id(const struct template_answers *answers, char id_out[TEMPLATE_ID_SIZE], struct error *err);

struct policy_set;
/**
 * Appends what a set that these answers made does, decided by its policies: which of its regions may hold the content, whether clients in
 * the networks may read it, and else by which rule not; and the template's sources, and what nobody has verified. Lines of 80 columns.
 */
RESULT policy_template_effects(const struct policy_set *set, const struct template_answers *answers, struct buffer *text,
                               struct error *err);
