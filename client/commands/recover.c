/* A log goes on under a new origin (docs/recovery.md): what a plan says, and an officer's signature. */
#include <stdio.h>
#include <string.h>

#include "audit/format/succession.h"
#include "base/clock.h"
#include "base/file.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/local.h"
#include "crypto/dsse.h"

/* The plan itself, or the payload of one that is signed; its signature is not checked here. */
static struct result open_plan(struct bytes file, struct buffer *statement, struct error *err)
{
    OWNED(dsse) *dsse = NULL;

    if (file.length == 0 || file.data[0] != '{') return buffer_add(statement, file.data, file.length, err);
    const uint8_t *end = memchr(file.data, '\n', file.length);
    const struct bytes first = {file.data, end == NULL ? file.length : (size_t)(end - file.data)};
    TRY(dsse_read(first, SUCCESSION_ENVELOPE_MAX, &dsse, err));
    if (strcmp(dsse->payload_type, SUCCESSION_PAYLOAD) != 0)
        return failure(err, ERROR_INVALID, "the file is no plan for a new origin of a log");
    return buffer_add(statement, dsse->payload.data, dsse->payload.length, err);
}

static struct result read_plan(const char *path, struct buffer *statement, struct succession *succession, struct error *err)
{
    struct buffer OWNED_BUFFER file = BUFFER(SUCCESSION_OFFICERS_MAX * SUCCESSION_ENVELOPE_MAX);

    TRY(local(file_read(path, &file, err), path, err));
    TRY(local(open_plan(buffer_bytes(&file), statement, err), path, err));
    return local(succession_read(buffer_bytes(statement), succession, err), path, err);
}

static uint64_t lost(const struct succession *succession)
{
    return succession->before.size > succession->after.size ? succession->before.size - succession->after.size : 0;
}

struct result command_recover_show(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER statement = BUFFER(SUCCESSION_MAX), vkey = BUFFER(512);
    struct succession plan;
    char made[CLOCK_TEXT_SIZE];

    TRY(read_plan(invocation->operands[0], &statement, &plan, err));
    clock_format((int64_t)plan.made_ms, made);
    (void)printf("registry  %s\nmade      %s\nreason    %s\nends      %s, of which %llu entries were signed\n"
                 "begins    %s, with the first %llu entries\nlost      %llu entries that were signed, and what came after them\n",
                 plan.registry, made, plan.reason, plan.before.origin, (unsigned long long)plan.before.size, plan.after.origin,
                 (unsigned long long)plan.after.size, (unsigned long long)lost(&plan));
    TRY(note_key_write(&plan.key, &vkey, err));
    (void)printf("new key   %s\nofficers  %u%s\n", buffer_text(&vkey), plan.officers,
                 plan.officers == 1 ? ": the root of approvers ALONE signs (a registry with one administrator)" : " must sign");
    for (size_t i = 0; i < DOCUMENT_KINDS_MAX; i++)
        if (plan.pins[i].epoch != 0)
            (void)printf("in force  documents of kind %zu up to %llu\n", i + 1, (unsigned long long)plan.pins[i].epoch);
    (void)printf("newest checkpoint of the log that ends:\n%.*s", (int)plan.checkpoint.length,
                 (const char *)plan.checkpoint.data);
    return SUCCESS;
}

struct result command_recover_sign(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER statement = BUFFER(SUCCESSION_MAX), envelope = BUFFER(SUCCESSION_ENVELOPE_MAX);
    OWNED(ecdsa_key) *key = NULL;
    struct succession plan;

    TRY(read_plan(invocation->operands[0], &statement, &plan, err));
    TRY(command_signer(invocation, &key, err));
    const struct ecdsa_key *signer = key;
    TRY(dsse_write(SUCCESSION_PAYLOAD, buffer_bytes(&statement), &signer, 1, &envelope, err));
    TRY(buffer_add_u8(&envelope, '\n', err));
    return api_output(invocation, invocation_option(invocation, 'o'), buffer_bytes(&envelope), err);
}
