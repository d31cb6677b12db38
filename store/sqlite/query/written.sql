-- Count how often numbers were written. The row is not about a log.
INSERT INTO timer_numbers (broker, log, kind, number)
VALUES ('', '', '', 1)
    ON CONFLICT (broker, log, kind) DO UPDATE
   SET number = number + 1
RETURNING number
