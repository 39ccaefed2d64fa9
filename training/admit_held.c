/* What an admission compares with the signed results, and why it is refused. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "training/admit_priv.h"
#include "training/papers.h"

struct result admit_refuse(struct admitting *admitting, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(admitting->reason, sizeof admitting->reason, format, arguments);
    va_end(arguments);
    return SUCCESS;
}

bool admit_is_refused(const struct admitting *admitting)
{
    return admitting->reason[0] != '\0';
}

bool admit_is_first(const struct admitting *admitting, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (uuid_equal(&admitting->held.each[i].where.repository, &admitting->held.each[index].where.repository)) return false;
    return true;
}

/* ---- what is held ---- */

static bool is_held(const struct held_manifests *held, const struct run_made *made)
{
    struct error ignored = {0};

    for (size_t i = 0; i < held->count; i++)
        if (strcmp(held->each[i].name, made->name) == 0)
            return run_made_check(made, &held->each[i], buffer_bytes(&held->each[i].body), &ignored).ok;
    return false;
}

/* What the database returns is compared with the signed result again. */
static struct result check_held(struct admitting *admitting, const struct held_manifests *held, const struct run_makes *makes)
{
    for (size_t i = 0; i < makes->count && !admit_is_refused(admitting); i++)
        if (!is_held(held, &makes->each[i]))
            return admit_refuse(admitting, "the kept manifest of %.63s of node %lld is not the one that the result names",
                                makes->each[i].name, (long long)held->key.node);
    return SUCCESS;
}

struct result admit_read_held(struct admitting *admitting, const struct run_envelope *result, struct held_manifests *held,
                              struct error *err)
{
    const struct held_key key = {admitting->run.run, run_integer(result, "predicate.buildDefinition.internalParameters.attempt"),
                                 run_integer(result, "predicate.buildDefinition.internalParameters.node")};
    struct run_makes makes;
    struct error why = {0};

    run_makes_of(admitting->papers->chain.order, result, &makes);
    if (held_manifests_read(admitting->permit, admitting->source->registry, admitting->source->bundle.pg, &key, held, &why).ok)
        return check_held(admitting, held, &makes);
    if (why.kind == ERROR_CORRUPT || why.kind == ERROR_INVALID || why.kind == ERROR_NOT_FOUND)
        return admit_refuse(admitting, "%.250s", why.message);
    return failure(err, why.kind, "%s", why.message);
}

struct result admit_read_node(struct admitting *admitting, size_t index, struct held_manifests *held, struct error *err)
{
    return admit_read_held(admitting, admitting->papers->chain.peers[index].result, held, err);
}
