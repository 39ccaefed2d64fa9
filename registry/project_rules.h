/*
 * registry/project_rules.h -- the table `project_rules`: set and read. What they do is in the statements that obey them.
 */
#pragma once

#include "registry/registry.h"
#include "registry/rules.h"

/** A change: the project's rules, as a whole. The permit: project.rules on it. ERROR_NOT_FOUND. */
struct rules_change {
    struct change change;
    struct resource where;       /* the project; its id is known */
    const char *document;        /* canonical JSON that rules_read() takes; must outlive the record, as must the next */
    const struct rules *rules;
};
RESULT rules_change_prepare(const struct resource *where, const char *document, const struct rules *rules,
                            struct rules_change *change_out, struct error *err);

/** Appends the document, "{}" if none was ever set. The permit: project.read. ERROR_NOT_FOUND. */
RESULT rules_document(const struct permit *permit, struct pg *pg, const struct resource *where, struct buffer *document,
                      struct error *err) __attribute__((nonnull));
