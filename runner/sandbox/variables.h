/*
 * runner/sandbox/variables.h -- the environment of a payload.
 *
 * It starts empty. Three parts are added, in this order: the variables of the sandbox, of the order and of the node. A node may
 * add only the variables of one list, in the form that the list states. They replace no other variable, and all are reported.
 */
#pragma once

#include "base/json.h"

/**
 * The whole environment, an object of texts: `ordered` (an object, or NULL) may replace variables of the sandbox, except SIJIL_*.
 * `added` are `count` texts NAME=VALUE of the node. ERROR_DENIED for an addition that is not in the list, or that the order has;
 * ERROR_INVALID for a value of another form.
 */
RESULT variables_make(const json_t *ordered, const char *const *added, size_t count, json_t **variables_out, struct error *err);

/** Which tasks of an attempt run here. */
struct task_group {
    int64_t node, nodes, tasks; /* tasks of each node */
    bool is_joined;             /* the nodes reach each other (runner/sandbox/nodes.h) */
};
/**
 * Adds the variables of a rendezvous, as torchrun sets them: MASTER_ADDR and so on. With several tasks sijil-inside adds the rank of each, else it is
 * added here. ERROR_INVALID if `variables` has one of them.
 */
RESULT variables_add_tasks(json_t *variables, const struct task_group *group, struct error *err);
