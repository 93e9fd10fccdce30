/** Why the server refused something, or why it cannot be reached. */
export class Problem extends Error {
  override name = "Problem";
  /**
   * The API's word for it, such as not_allowed or invalid_user_id; of the client's own: unreachable,
   * token (the token callback failed), token_ended, closed, malformed, unanswered.
   */
  readonly code: string;
  /** The field that is wrong, such as user_ids[3]. */
  readonly field: string | undefined;
  /** Of not_allowed and of an invalid id: the user, who is not watched any more. */
  readonly user: string | undefined;
  /** HTTP status or WebSocket close code. */
  readonly status: number | undefined;
  /** When to try again, in milliseconds, where the server says so. */
  readonly retryAfter: number | undefined;

  constructor(
    code: string,
    message: string,
    more: Partial<Pick<Problem, "field" | "user" | "status" | "retryAfter">> = {},
  ) {
    super(message);
    this.code = code;
    this.field = more.field;
    this.user = more.user;
    this.status = more.status;
    this.retryAfter = more.retryAfter;
  }
}

/** The error of the API in a JSON body or message; undefined if there is none. */
export function errorIn(
  body: unknown,
): { code: string; message: string; field?: string; user_id?: string } | undefined {
  const error = (body as { error?: { code?: unknown; message?: unknown } } | null)?.error;
  return typeof error?.code === "string" && typeof error.message === "string" ? (error as never) : undefined;
}

/** The problem of an HTTP answer that is not 2xx. */
export async function problemOf(answer: Response): Promise<Problem> {
  const error = errorIn(await answer.json().catch(() => undefined));
  const after = Number(answer.headers.get("Retry-After") ?? NaN);
  return new Problem(error?.code ?? "http", error?.message ?? `the server answered ${answer.status}`, {
    field: error?.field,
    status: answer.status,
    retryAfter: after >= 0 ? after * 1000 : undefined,
  });
}
