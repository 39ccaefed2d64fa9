/* What a bucket says about itself: its mark, its location, and the rules that the store follows without us. */
#include <stdio.h>
#include <string.h>

#include "storage/driver_s3_priv.h"

#define MARK_OBJECT "sijil-region" /* below the prefix; no name of a blob's object has this form */

static void mark_key(const struct s3_driver *s3, char key_out[S3_NAME_SIZE])
{
    (void)snprintf(key_out, S3_NAME_SIZE, "%s" MARK_OBJECT, s3->prefix);
}

static struct result read_mark(struct s3_driver *s3, char mark_out[DRIVER_MARK_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER content = BUFFER(DRIVER_MARK_SIZE + 1);
    char key[S3_NAME_SIZE];

    mark_key(s3, key);
    const struct result got = s3_get(s3, key, &content, err);
    mark_out[0] = '\0';
    if (got.ok || err->kind == ERROR_LIMIT) driver_mark_read(buffer_bytes(&content), mark_out);
    return got.ok || err->kind == ERROR_NOT_FOUND || err->kind == ERROR_LIMIT ? SUCCESS : got;
}

/* A store that refuses the question, or does not know it, has told nothing; one that does not answer is away. */
static bool is_refusal(const struct s3_answer *answer)
{
    return answer->status == 501 ||
           (answer->status >= 400 && answer->status < 500 && answer->status != 408 && answer->status != 429);
}

static struct result ask_rules(struct s3_driver *s3, const char *question, struct driver_rules *rules, struct error *err)
{
    const struct s3_request request = {.method = "GET", .key = "", .query = {{question, ""}}, .query_count = 1};
    OWNED_ANSWER answer = S3_ANSWER(S3_ANSWER_MAX);
    const struct result asked = s3_call(s3->s3, &request, &answer, err);

    *rules = (struct driver_rules){.told = RULES_NONE};
    if (asked.ok) return s3_answer_rules(buffer_bytes(&answer.body), s3->prefix, rules, err);
    if (err->kind == ERROR_NOT_FOUND) return SUCCESS;
    if (!is_refusal(&answer)) return asked;
    rules->told = RULES_NOT_TOLD;
    (void)snprintf(rules->what, sizeof rules->what, "%ld %.63s", answer.status, answer.code);
    return SUCCESS;
}

struct result s3_survey(struct driver *driver, struct driver_survey *survey_out, struct error *err)
{
    struct s3_driver *s3 = s3_of(driver);
    struct driver_survey survey = {.mark = ""};
    char location[S3_LOCATION_SIZE];

    TRY(s3_ask_location(s3, location, err));
    (void)snprintf(survey.place, sizeof survey.place, "%s", location);
    TRY(read_mark(s3, survey.mark, err));
    TRY(ask_rules(s3, "replication", &survey.copies, err));
    TRY(ask_rules(s3, "lifecycle", &survey.expiry, err));
    TRY(ask_rules(s3, "versioning", &survey.versions, err));
    *survey_out = survey;
    return SUCCESS;
}

struct result s3_mark(struct driver *driver, const char *mark, struct error *err)
{
    struct s3_driver *s3 = s3_of(driver);
    OWNED_ANSWER answer = S3_ANSWER(S3_ANSWER_MAX);
    char key[S3_NAME_SIZE], text[DRIVER_MARK_SIZE + 1], found[DRIVER_MARK_SIZE];

    TRY(s3_reach(s3, err));
    mark_key(s3, key);
    (void)snprintf(text, sizeof text, "%.32s\n", mark);
    const struct s3_request request = {.method = "PUT", .key = key, .body = bytes_of_text(text), .is_new = true};
    const struct result put = s3_call(s3->s3, &request, &answer, err);
    if (put.ok || err->kind != ERROR_CONFLICT || answer.tries == 1) return put;
    TRY(read_mark(s3, found, err)); /* the first try may have written it */
    return strcmp(found, mark) == 0 ? SUCCESS : failure(err, ERROR_CONFLICT, "the bucket has another mark");
}
