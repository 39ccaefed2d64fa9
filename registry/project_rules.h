/* registry/project_rules.h -- sets and reads the table `project_rules`. The statements of other tables apply the rules. */
#pragma once

#include "registry/registry.h"
#include "registry/rules.h"

/** A change: replaces the project's rules. The permit: project.rules on it. ERROR_NOT_FOUND. */
struct rules_change {
    struct change change;
    struct resource where; /* the project; its id is known */
    const char *document;  /* canonical JSON for rules_read(); must outlive the record, as must the next */
    const struct rules *rules;
    bool (*holds)(void *context,
                  const char *document); /* NULL, or whether the present document is the one that the caller knows */
    void *context;
    bool is_refused; /* it is not: ERROR_CONFLICT, and nothing was changed */
};
RESULT rules_change_prepare(const struct resource *where, const char *document, const struct rules *rules,
                            struct rules_change *change_out, struct error *err);

/** Appends the document, or "{}" if none was ever set. The permit: project.read. ERROR_NOT_FOUND. */
RESULT rules_document(const struct permit *permit, struct pg *pg, const struct resource *where, struct buffer *document,
                      struct error *err) __attribute__((nonnull));
