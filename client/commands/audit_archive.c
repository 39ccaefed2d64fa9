/* `sijil admin audit archive`: asks for one step after the other, until all pieces before the number or the time are archived. */
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/terminal.h"

static struct result body_of(const struct invocation *invocation, json_t **body_out, struct error *err)
{
    struct buffer OWNED_BUFFER before = BUFFER(4096);

    TRY(audit_time_of(invocation_option(invocation, 'b'), &before, err));
    *body_out = json_pack("{s:s,s:s}", "before", buffer_text(&before), "region", invocation_option(invocation, 'g'));
    return *body_out != NULL ? SUCCESS : failure(err, ERROR_INVALID, "--before and --region are text");
}

static void show_progress(const json_t *answer)
{
    terminal_progress("archived up to %" PRId64, number_of(answer, "archived_to"));
}

static struct result archive_all(struct session *session, json_t *body, json_t **last_out, int64_t *count, struct error *err)
{
    for (;;) {
        OWNED_JSON answer = NULL;
        TRY(api_call_in(session, "POST", "/audit/archives", body, &answer, err));
        const int64_t archived = number_of(answer, "archived");
        *count += archived;
        show_progress(answer);
        if (json_is_true(json_object_get(answer, "done"))) {
            *last_out = json_incref(answer);
            return SUCCESS;
        }
        if (archived <= 0) return failure(err, ERROR_INVALID, "the registry archives nothing more, and is not done");
    }
}

struct result command_audit_archive(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_JSON body = NULL;
    OWNED_JSON last = NULL;
    int64_t count = 0;

    if (invocation_option(invocation, 'b') == NULL || invocation_option(invocation, 'g') == NULL)
        return line_check(invocation, failure(err, ERROR_INVALID, "--before NUMBER|TIME and --region REGION are both needed"));
    TRY(body_of(invocation, &body, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    const struct result archived = archive_all(session, body, &last, &count, err);
    terminal_progress_end();
    TRY(archived);
    if (invocation->json) return api_print(invocation, last, err);
    (void)printf("%" PRId64 " entries were archived now; all entries before %" PRId64 " are in a region, too\n", count,
                 number_of(last, "archived_to"));
    return SUCCESS;
}
