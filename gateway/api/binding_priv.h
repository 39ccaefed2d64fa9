/*
 * gateway/api/binding_priv.h -- what a single grant and a batch of grants have in common.
 */
#pragma once

#include "authz/binding.h"
#include "base/json.h"
#include "gateway/pipeline/request.h"
#include "storage/lookup.h"

#define BINDING_DAYS_MAX 3650

/** The wanted role, from a body; texts are views of the document. */
struct wanted_binding {
    const char *robot, *issuer, *subject, *scope;
    struct authz_binding binding;
    int64_t lifetime_s;
};
/** `body` fits schema_binding_wanted. ERROR_INVALID. */
RESULT wanted_binding_read(const json_t *body, struct wanted_binding *wanted, struct error *err) __attribute__((nonnull));
/** Looks the robot up, if the caller may grant on the scope of the pair; the detail of the pair then names it, or nobody. */
RESULT wanted_binding_robot(const struct request *request, struct lookup *lookup, struct wanted_binding *wanted,
                            struct action_pair *pair, struct error *err) __attribute__((nonnull(1, 3, 4, 5)));
/** Sets the lifetime that it has if none is asked for. ERROR_INVALID: it is too long here. */
RESULT wanted_binding_bound(const struct request *request, struct wanted_binding *wanted, struct error *err)
    __attribute__((nonnull));
/** The decision was about this robot, so the change gets no other one. */
void binding_take_decided(const struct action_pair *pair, struct authz_binding *binding) __attribute__((nonnull));
/** Adds the pair for the place that the parameter `scope` names: the registry, an organisation or a project. Another form is unknown. */
void binding_pair_of_place(struct request *request, enum action action) __attribute__((nonnull));
/** Who gives it. */
void binding_create_by(struct binding_create *create, const struct principal *granter) __attribute__((nonnull));
