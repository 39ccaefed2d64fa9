/* The evidence of a residency report: what it leads to is always the same, fits its own pages, and can be read again. */
#include <assert.h>
#include <string.h>

#include "residency/residency.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool compose(const uint8_t *data, size_t size, json_t **report_out)
{
    static const struct residency_trust nothing = {.root = NULL};
    static const struct residency_question all = {.from = 0};
    struct residency_findings findings;
    struct error err = {0};
    FILE *file = fmemopen((void *)(uintptr_t)data, size, "rb");

    assert(file != NULL);
    const bool is_report = residency_compose(file, &nothing, &all, report_out, &findings, &err).ok;
    (void)fclose(file);
    assert(is_report || (err.kind != ERROR_NONE && err.message[0] != '\0'));
    return is_report;
}

static void check_pages(const json_t *report)
{
    struct buffer OWNED_BUFFER text = BUFFER(RESIDENCY_REPORT_MAX), page = BUFFER(RESIDENCY_PAGE_MAX);
    struct residency_question question;
    OWNED_JSON read = NULL;
    struct error err = {0};

    assert(residency_write(report, &text, &err).ok && json_read(buffer_bytes(&text), RESIDENCY_REPORT_MAX, &read, &err).ok);
    assert(json_equal(report, read) && residency_question_of(read, &question, &err).ok && question.from == 0);
    for (enum residency_language language = RESIDENCY_ENGLISH; language < RESIDENCY_LANGUAGES; language++) {
        buffer_clear(&page);
        assert(residency_page(report, language, &page, &err).ok && strstr(buffer_text(&page), "<script") == NULL);
    }
    buffer_clear(&page);
    assert(residency_csv(report, &page, &err).ok);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED_JSON report = NULL;
    OWNED_JSON again = NULL;
    struct error err = {0};

    if (size == 0 || !compose(data, size, &report)) return 0;
    check_pages(report);
    assert(compose(data, size, &again) && residency_compare(report, again, &err).ok);
    return 0;
}
