/*
 * tests/unit/keyd_register_fixture.h -- a register of keys of sijil-keyd with its ledger, and trust rules that are noted in it. The header has definitions, so
 * only one source file of a program may include it.
 */
#pragma once

#include "tests/unit/keyd_folder_fixture.h"

#include <stdio.h>
#include <string.h>

#include "crypto/digest.h"
#include "keyd/key_register.h"

static const uint8_t ledger_key[LEDGER_KEY_SIZE] = {7};

struct world {
    struct folder folder;
    struct ledger *ledger;
    struct key_register *keys;
};

static inline enum error_kind open_register(struct world *world)
{
    struct error err = {0};

    key_register_free(world->keys);
    world->keys = NULL;
    return key_register_open(world->folder.fd, ledger_key, world->ledger, &world->keys, &err).ok ? ERROR_NONE : err.kind;
}

static inline void begin(struct world *world)
{
    struct error err = {0};

    *world = (struct world){.keys = NULL};
    folder_make(&world->folder);
    assert_true(ledger_create(world->folder.fd, ledger_key, &err).ok);
    assert_true(key_register_create(world->folder.fd, ledger_key, &err).ok);
    assert_true(ledger_open(world->folder.fd, ledger_key, &world->ledger, &err).ok);
    assert_int_equal(open_register(world), ERROR_NONE);
}

static inline void release(struct world *world)
{
    key_register_free(world->keys);
    ledger_free(world->ledger);
    folder_remove(&world->folder);
}
#define OWNED_WORLD __attribute__((cleanup(release))) struct world

/* ---- pins ---- */

static inline struct document_pin pin_number(uint64_t sequence)
{
    return (struct document_pin){.epoch = sequence, .digest = {(uint8_t)sequence}};
}

struct set_pin {
    enum document_kind kind;
    uint64_t sequence;
};

static inline struct result change_pin(const void *context, struct ledger_state *state, struct error *err)
{
    const struct set_pin *set = context;

    (void)err;
    state->pins[document_kind(set->kind)->number - 1] = pin_number(set->sequence);
    return SUCCESS;
}

static inline void pin(struct world *world, enum document_kind kind, uint64_t sequence)
{
    const struct set_pin set = {kind, sequence};
    struct error err = {0};

    assert_true(ledger_change(world->ledger, change_pin, &set, &err).ok);
}

/* ---- versions ---- */

static inline struct document rule_in(const char *scope)
{
    struct document rule = {.kind = DOCUMENT_TRUST_RULE, .name = "gh-train"};

    (void)snprintf(rule.scope, sizeof rule.scope, "%s", scope);
    return rule;
}

static inline bool is_newest(struct world *world, const char *scope, uint64_t sequence)
{
    const struct document rule = rule_in(scope);
    struct error err = {0};

    const bool is_it = key_register_check_newest(world->keys, &rule, sequence, &err).ok;
    if (!is_it) assert_int_equal(err.kind, ERROR_DENIED);
    return is_it;
}

static inline bool is_pinned(struct world *world, const struct document *document, uint64_t sequence)
{
    struct error err = {0};

    return key_register_check_enrolment(world->keys, document, sequence, &err).ok;
}
